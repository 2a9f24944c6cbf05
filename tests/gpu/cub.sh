#!/bin/sh
# cub.sh - the order in which the toolkit's CUB adds up a block, read off the PTX of our kernels: the one that tests/cuda/cub has, with
# which they run on a CPU. Without nvcc it is skipped.
nvcc=${NVCC:-${CUDA_HOME:-/usr/local/cuda}/bin/nvcc}
passed=0 failed=0
if [ ! -x "$nvcc" ]; then
    echo "skipped: CUB's order: no $nvcc"
    echo '0 0 1'
    exit 0
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/ballast-cub.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
for f in update loss; do
    "$nvcc" -O3 -std=c++17 -I. -arch=sm_80 -ptx -o "$work/$f.ptx" kernels/cuda_$f.cu >"$work/log" 2>&1 || { cat "$work/log"; echo '0 1 0'; exit 1; }
done

# file, kernel: "down 1 2 4 ..., then +8 +16 ...": by how many lanes its shuffles look down, and what is added behind the barrier,
# as distances in shared memory from what thread 0 has
order() {
    awk -v kernel="$2" '
        /^\.visible \.entry/ { inside = index($0, kernel) > 0; next }
        !inside || done { next }
        { gsub(/[,;{}|]/, " "); gsub(/\[|\]/, " ") }
        $1 == "mov.u32" && $3 ~ /^[0-9]+$/ { number[$2] = $3 }
        /shfl\.sync/ {
            for (i = 1; i < NF; i++)
                if ($i ~ /^shfl\.sync\./) {
                    by = $(i + 1) ~ /^%/ ? $(i + 3) : $(i + 4) # "lo|p" is two words now
                    if ($i != "shfl.sync.down.b32")
                        by = "?" $i
                    else if (by in number)
                        by = number[by]
                    if (by != last)
                        down = down " " by
                    last = by
                }
        }
        /bar\.sync/ { behind = 1 }
        behind && /^[ \t]*ld\.shared/ {
            at = $NF
            if (at !~ /\+/)
                at = at "+0"
            sub(/.*\+/, "", at)
            bytes = $1 ~ /64$/ ? 8 : 4
            for (i = 2; i < NF; i++)
                from[$i] = at + (i - 2) * bytes
        }
        behind && /^[ \t]*add\.(rn\.)?f64/ {
            # the sum so far, and a word of shared memory
            if (sum != "" && $3 != sum && $4 != sum)
                added = added " apart"
            word = $4 in from ? $4 : $3
            if (!(word in from))
                added = added " ?"
            else {
                if (sum == "")
                    base = from[word] - 8
                added = added " +" (from[word] - base)
            }
            sum = $2
        }
        /^}/ || /^[ \t]*ret/ { done = behind }
        END { print "down" down ", then" added }' "$work/$1.ptx"
}
expect() { # file, kernel, order
    got=$(order "$1" "$2")
    if [ "$got" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $2: '$got', expected '$3'"
    fi
}
# 256 threads: 8 warps, thread 0 having the first one's sum
expect update total_kernel 'down 1 2 4 8 16, then +8 +16 +24 +32 +40 +48 +56'
# 512 threads; its sums are functions, whose inlined arithmetic is not read here
got=$(order loss cross_entropy_kernel)
case $got in
'down 1 2 4 8 16, then'*) passed=$((passed + 1)) ;;
*) failed=$((failed + 1)) && echo "failed: cross_entropy_kernel: '$got'" ;;
esac
echo "$passed $failed 0"
[ "$failed" = 0 ]
