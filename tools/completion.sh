#!/bin/sh
# completion.sh FOLDER - prints bash completion for ballast and ballast-exec, made from the --help of the programs in FOLDER.
# Names of clusters and models are asked of ballast when they are wanted.
folder=$1
[ -x "$folder/ballast" ] && [ -x "$folder/ballast-exec" ] || { echo "completion.sh: no programs in '$folder'" >&2; exit 1; }
commands=$("$folder/ballast" --help | awk '/^commands:/ { on = 1; next } on && /^  [a-z]/ { print $1; next } on { exit }')
layouts=$("$folder/ballast" compare --layouts list | awk 'NR > 1 && NF { if (/^short names/) { sub(/^short names: /, ""); n = split($0, p, ", ")
    for (i = 1; i <= n; i++) { split(p[i], q, " "); print q[1] } } else print $1 }' | tr '\n' ' ')

aliases=$("$folder/ballast" topo --list | sed -n '/^also: /,$p' | tr ',' '\n' | sed -n 's/^\(also:\)\{0,1\} *\([^ ]*\) = .*/\2/p' | tr '\n' ' ')

# The options of a --help, and `OPTION) choices` for those that list them.
options() {
    awk '/^ (     | -[A-Za-z], )--/ { sub(/^ +(-[A-Za-z], )?/, ""); sub(/[ =].*/, ""); printf "%s ", $0 }'
}
choices() { # the text of an option of a NAME ends in ": a, b, c [default: ...]"
    awk '
    function flush(   n) {
        sub(/ *\[default: .*/, "", text)
        n = match(text, /: [a-z0-9-]+(, [a-z0-9-]+)+$/)
        if (named && n) {
            text = substr(text, n + 2)
            gsub(/,/, "", text)
            printf "        %s) words=\"%s\" ;;\n", option, text
        }
        option = ""
    }
    /^ (     | -[A-Za-z], )--/ {
        flush()
        sub(/^ +(-[A-Za-z], )?/, "")
        option = $1
        named = $2 == "NAME" || $2 == "A,B,..."
        text = $0
        sub(/^[^ ]+ [^ ]+ */, "", text)
        next
    }
    /^ +[^ ]/ { sub(/^ +/, ""); text = text " " $0; next }
    { flush() }
    END { flush() }'
}
one() { # a case of the command
    cat <<END
    $1)
        options="$(options <"$2")"
        case \$previous in
$(choices <"$2")
        esac
        ;;
END
}

help=$(mktemp) || exit 1
trap 'rm -f "$help"' EXIT
cat <<END
# bash completion for ballast and ballast-exec
_ballast() {
    local word=\${COMP_WORDS[COMP_CWORD]} previous= command=\$1 first=\${COMP_WORDS[1]} options= words=
    [ "\$COMP_CWORD" -gt 0 ] && previous=\${COMP_WORDS[COMP_CWORD-1]}
    COMPREPLY=()
    if [ "\${command##*/}" = ballast-exec ]; then
        command=exec
        case \$first in
        calibrate | rates | kernels) command=\$first ;;
        esac
        [ "\$COMP_CWORD" = 1 ] && words='calibrate rates kernels'
    elif [ "\$COMP_CWORD" = 1 ]; then
        COMPREPLY=(\$(compgen -W "$(echo $commands) help --help --version" -- "\$word"))
        return
    elif [ "\$first" = help ]; then
        COMPREPLY=(\$(compgen -W "$(echo $commands)" -- "\$word"))
        return
    else
        command=\$first
    fi
    case \$command in
END
for c in $commands; do
    case $c in
    exec) "$folder/ballast-exec" --help >"$help" || exit 1 ;;
    calibrate) "$folder/ballast-exec" calibrate --help >"$help" || exit 1 ;;
    *) "$folder/ballast" "$c" --help >"$help" || exit 1 ;;
    esac
    one "$c" "$help"
done
for c in rates kernels; do
    "$folder/ballast-exec" $c --help >"$help" || exit 1
    one $c "$help"
done
cat <<END
    esac
    if [ -n "\$words" ] && [ "\$COMP_CWORD" -gt 1 ]; then
        COMPREPLY=(\$(compgen -W "\$words" -- "\$word"))
        return
    fi
    case \$previous in
    --layout | --layouts | -l) words="$layouts" ;;
    --cluster | -c) words="$aliases"\$(ballast topo --list --format csv 2>/dev/null | sed '1d;s/,.*//') ;;
    =) # bash cuts --cluster=BASE:network=CLUSTER at the signs
        case \${COMP_WORDS[COMP_CWORD-2]} in
        --cluster | network) words="$aliases"\$(ballast topo --list --format csv 2>/dev/null | sed '1d;s/,.*//') ;;
        esac
        ;;
    esac
    case \$command:\$word in
    *:-*) words=\$options ;;
    topo:*) [ -n "\$words" ] || words="$aliases"\$(ballast topo --list --format csv 2>/dev/null | sed '1d;s/,.*//') ;;
    model:* | plan:* | sim:* | compare:* | recommend:*)
        case \$previous in
        -* | =) ;;
        *) words=\$(ballast model --list --format csv 2>/dev/null | sed '1d;s/,.*//') ;;
        esac
        ;;
    esac
    COMPREPLY=(\$(compgen -W "\$words" -- "\$word") \$(compgen -f -- "\$word"))
}
complete -o filenames -o bashdefault -F _ballast ballast ballast-exec
END
