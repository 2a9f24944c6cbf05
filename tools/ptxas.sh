#!/bin/sh
# ptxas.sh - `make ptxas`: what the assembler says about every kernel, for each of $ARCHS (80 90): registers a thread, shared
# memory that is not asked for at the launch, and bytes spilled to local memory. Status 1 when any kernel spills.
NVCC=${NVCC:-/usr/local/cuda/bin/nvcc}
[ -x "$NVCC" ] || { echo "ptxas.sh: no $NVCC; set CUDA_HOME" >&2; exit 4; }
work=$(mktemp -d "${TMPDIR:-/tmp}/ballast-ptxas.XXXXXX") || exit 4
trap 'rm -rf "$work"' EXIT
printf '%-8s %5s %8s %7s  %s\n' arch regs shared spilled kernel
for f in kernels/*.cu; do
    for arch in ${ARCHS:-80 90}; do
        if ! "$NVCC" -O3 -std=c++17 -I. -arch="sm_$arch" -cubin -Xptxas -v -o "$work/out" "$f" >"$work/report" 2>&1; then
            cat "$work/report" >&2
            exit 4
        fi
        c++filt <"$work/report" | awk '
            /Compiling entry function/ { split($0, q, "\047"); name = q[2]; arch = q[4]; spilled = 0 }
            /bytes spill stores/ {
                for (i = 1; i <= NF; i++)
                    if ($i == "spill")
                        spilled += $(i - 2)
            }
            /Used [0-9]+ registers/ {
                regs = $0; sub(/.*Used /, "", regs); sub(/ .*/, "", regs)
                shared = 0
                if (match($0, /[0-9]+ bytes smem/))
                    shared = substr($0, RSTART, RLENGTH) + 0
                sub(/^void /, "", name)
                sub(/\(.*/, "", name)
                printf "%-8s %5d %8d %7d  %s\n", arch, regs, shared, spilled, name
            }'
    done
done | tee "$work/table"
awk '$4 > 0 { n++ } END { if (n) printf "%d kernels spill\n", n; exit n > 0 }' "$work/table"
