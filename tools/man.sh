#!/bin/sh
# man.sh ballast|ballast-exec FOLDER - prints the manual page, made from the --help of the programs in FOLDER: what the
# option tables say is said once. Sections that no table has (status, files, environment) are below.
name=$1 folder=$2
[ -x "$folder/ballast" ] && [ -x "$folder/ballast-exec" ] || { echo "man.sh: no programs in '$folder'" >&2; exit 1; }
version=$("$folder/ballast" --version) || exit 1
version=${version#ballast }

# Help text to roff: paragraphs and usage lines, headings, options with their text joined. -v skip: how the headings begin
# whose options stand elsewhere, -v instead: the line that says where.
help_to_roff() {
    awk -v skip="$1" -v instead="$2" '
    function plain(s) {
        gsub(/\\/, "\\e", s)
        gsub(/-/, "\\-", s)
        if (s ~ /^[.\x27]/)
            s = "\\&" s
        return s
    }
    function flush() {
        if (option != "" && !skipping)
            printf ".TP\n.B %s\n%s\n", plain(option), text == "" ? "\\&" : plain(text)
        option = text = ""
    }
    /^[A-Z][A-Za-z, ]*:$/ {
        flush()
        options = 1
        skipping = skip != "" && index($0, skip) == 1
        if (sub(/^Job options, /, ""))
            $0 = toupper(substr($0, 1, 1)) substr($0, 2)
        if (!skipping || !said++)
            printf ".PP\n%s\n", skipping ? plain(instead) : plain($0)
        next
    }
    options && /^ (     | -[A-Za-z], )--/ {
        flush()
        sub(/^ +/, "")
        at = match($0, /  +/)
        option = at ? substr($0, 1, at - 1) : $0
        text = at ? substr($0, at + RLENGTH) : ""
        next
    }
    options && /^ +[^ ]/ {
        sub(/^ +/, "")
        text = text (text == "" ? "" : " ") $0
        next
    }
    options { next }
    /^$/ { print ".PP"; usage = 0; next }
    /^(usage:|   )/ { if (!usage++) print ".nf"; sub(/^usage: /, "       "); print plain(substr($0, 8)); infill = 1; next }
    { if (infill) print ".fi"; infill = 0; print plain($0) }
    END { flush(); if (infill) print ".fi" }'
}

footer() {
    cat <<'END'
.SH "EXIT STATUS"
.TP
.B 0
done
.TP
.B 1
done, and the answer is no: nothing fits, a check failed, something is missing
.TP
.B 2
the command line is wrong
.TP
.B 3
an input is wrong: a file, a name, a value
.TP
.B 4
the world failed: a full disk, a program that is not there, a rank that died
.PP
Results go to standard output, errors to standard error as one line.
END
}

case $name in
ballast)
    cat <<END
.TH BALLAST 1 "" "ballast $version" "User Commands"
.SH NAME
ballast \- plan and simulate the training of large models with matrix optimizers
.SH SYNOPSIS
.B ballast
.I COMMAND
[options]
.SH DESCRIPTION
Ballast says for each way to lay out parameters, gradients and optimizer states over the ranks of a cluster how long a
training step takes, how much memory the fullest GPU needs, what moves over which links, and what limits it; and it
chooses which rank owns which matrix.
.SH COMMANDS
END
    "$folder/ballast" --help | awk '/^commands:/ { on = 1; next } on && /^  [a-z]/ {
        printf ".TP\n.B %s\n", $1; sub(/^  [a-z-]+ +/, ""); gsub(/-/, "\\-"); print; next } on { exit }'
    echo '.PP'
    echo 'Any other word starts a program ballast\-WORD, beside ballast or in PATH.'
    echo '.SH "JOB OPTIONS"'
    echo 'Of plan, sim, compare and recommend; also the keys of a job file (\-\-job), with underscores.'
    "$folder/ballast" compare --help | sed -n '/^Job options, /,/^Options:/{/^Options:/!p;}' |
        help_to_roff '' ''
    for c in $("$folder/ballast" --help | awk '/^commands:/ { on = 1; next } on && /^  [a-z]/ { print $1; next } on { exit }'); do
        case $c in exec | calibrate) continue ;; esac
        printf '.SH "BALLAST %s"\n' "$(echo "$c" | tr a-z A-Z)"
        "$folder/ballast" "$c" --help | help_to_roff 'Job options, ' 'Job options: see above.'
    done
    footer
    cat <<'END'
.SH EXAMPLES
.nf
ballast compare qwen3\-32b \-\-cluster dgx\-a100 \-\-nodes 8 \-\-optimizer muon
ballast topo hgx\-a100:nics=4x200Gb,oversub=2 \-\-nodes 40
ballast topo topo.xml \-\-check
ballast plan llama\-3.1\-8b \-\-cluster hgx\-h100\-ndr \-\-nodes 4 \-o plan.json
.fi
.SH "SEE ALSO"
.BR ballast\-exec (1)
END
    ;;
ballast-exec)
    cat <<END
.TH BALLAST-EXEC 1 "" "ballast $version" "User Commands"
.SH NAME
ballast\-exec \- run a plan of ballast on this machine, and measure the machine
.SH SYNOPSIS
[\fBmpirun \-np\fR \fIN\fR]
.B ballast\-exec
.I PLAN
[options]
.br
[\fBmpirun \-np\fR \fIN\fR]
.B ballast\-exec calibrate
[options]
.br
.B ballast\-exec rates
[options]
.br
.B ballast\-exec kernels
[options]
.SH DESCRIPTION
END
    "$folder/ballast-exec" --help | help_to_roff '' ''
    for c in calibrate rates kernels; do
        printf '.SH "BALLAST\\-EXEC %s"\n' "$(echo "$c" | tr a-z A-Z)"
        "$folder/ballast-exec" $c --help | help_to_roff '' ''
    done
    footer
    cat <<'END'
.SH FILES
.TP
.B ballast\-mpi.so, ballast\-blas.so, ballast\-cuda.so
beside ballast\-exec: ranks by MPI, products by a BLAS, NVIDIA GPUs. Loaded when they are needed.
.SH ENVIRONMENT
.TP
.B OPENBLAS_NUM_THREADS, OPENBLAS_CORETYPE
are kept when they are set.
.TP
.B BALLAST_NCCL
the file of NCCL, instead of libnccl.so.2.
.SH "SEE ALSO"
.BR ballast (1),
.BR mpirun (1)
END
    ;;
*) echo "man.sh: there is no page '$name'" >&2; exit 2 ;;
esac
