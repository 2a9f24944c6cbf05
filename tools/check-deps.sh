#!/bin/sh
# check-deps.sh - who may include whom, and what follows from it.
#
#   core <- model <- layouts <- { planner, sim, exec } <- cli      kernels sees core, exec may use kernels
#   in model: tensors <- graph <- cluster <- plan <- program      exec reads plans and programs alone
#
# planner, sim and exec never include each other. The one exception is cli, which sees all. Also: project includes
# are "folder/file.h" from the root and exist; outside libraries appear in few files; every header compiles alone;
# ballast-exec has no GLPK in it. Prints one line a violation; status 1 when there is any.
CC=${CC:-gcc}
JOBS=${JOBS:-2}
bad=0
say() { echo "check-deps: $*"; bad=1; }

files=$(ls core/*.[ch] model/*/*.[ch] layouts/*.[ch] planner/*.[ch] sim/*.[ch] exec/*.[ch] kernels/*.[ch] \
    cli/*.[ch] kernels/*.cu kernels/*.cuh 2>/dev/null)

out=$(awk '
function allow(who, whom,   i, n, part) {
    n = split(whom, part, " ")
    for (i = 1; i <= n; i++)
        may[who, part[i]] = 1
}
# model/plan/job.h: room model/plan; layouts/step.h: room layouts.
function room(path,   p, n) {
    n = split(path, p, "/")
    return n == 3 ? p[1] "/" p[2] : p[1]
}
BEGIN {
    model = "core model/tensors model/graph model/cluster model/plan model/program"
    allow("core", "core")
    allow("model/tensors", "core model/tensors")
    allow("model/graph", "core model/tensors model/graph")
    allow("model/cluster", "core model/tensors model/graph model/cluster")
    allow("model/plan", "core model/tensors model/graph model/cluster model/plan")
    allow("model/program", model)
    allow("layouts", model " layouts")
    allow("planner", model " layouts planner")
    allow("sim", model " layouts sim")
    allow("kernels", "core kernels")
    allow("exec", "core model/plan model/program layouts kernels exec")
    allow("cli", model " layouts planner sim kernels exec cli")
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, q, "\"")
    n = split(q[2], p, "/")
    if (q[2] ~ /^\./ || n != (p[1] == "model" ? 3 : 2)) {
        printf "%s:%d: \"%s\": write \"folder/file.h\" from the root, \"model/room/file.h\" of model\n", FILENAME, FNR, q[2]
        next
    }
    if (!((room(FILENAME), room(q[2])) in may))
        printf "%s:%d: %s may not include \"%s\"\n", FILENAME, FNR, room(FILENAME), q[2]
    if ((getline line < q[2]) < 0)
        printf "%s:%d: \"%s\" does not exist\n", FILENAME, FNR, q[2]
    close(q[2])
}' $files /dev/null)
[ -z "$out" ] || say "$out"

# Own header first: the cheapest proof that it is complete is below, but readers look for it there.
for f in $files; do
    case $f in *.c) ;; *) continue ;; esac
    own=${f%.c}.h
    [ -e "$own" ] || continue
    first=$(awk '/^#include/ { print; exit }' "$f")
    [ "$first" = "#include \"$own\"" ] || say "$f: the first include is not \"$own\""
done

# library, how many files may include it, pattern
few() {
    n=$(grep -El "#[ 	]*include[ 	]*<$3" $files 2>/dev/null | wc -l)
    [ "$n" -le "$2" ] || say "$1 is included in $n files, at most $2:" \
        $(grep -El "#[ 	]*include[ 	]*<$3" $files)
}
if [ -n "$files" ]; then
    few GLPK 1 'glpk\.h'
    few cJSON 1 'cjson/'
    few libxml 1 'libxml/'
    few MPI 2 'mpi\.h'
    few NCCL 2 'nccl\.h'
    few CUDA 4 'cuda|<cublas|<cusolver'
    few BLAS 2 'cblas'
    few CUB 1 'cub/'
fi
other=$(grep -El '#[ 	]*include[ 	]*<cjson/' $files 2>/dev/null | grep -v '^core/json\.h$')
[ -z "$other" ] || say "cJSON belongs to core/json.h, not to $other"

# Every header alone. The paths of libraries that are not in /usr/include go through CPPFLAGS.
out=$(for f in $files; do case $f in *.h) echo "$f" ;; esac; done |
    xargs -P "$JOBS" -I{} sh -c "$CC -I. -D_XOPEN_SOURCE=700 $CPPFLAGS -std=c11 -Wall -fsyntax-only -include {} -x c /dev/null 2>&1 ||
        echo '{}: does not compile alone'")
[ -z "$out" ] || say "$out"

exe=${BUILD:-build}/ballast-exec
if [ -e "$exe" ] && command -v nm >/dev/null; then
    n=$({ nm "$exe"; nm -D "$exe"; } 2>/dev/null | grep -c 'glp_')
    [ "$n" = 0 ] || say "$exe has $n glp_ symbols, expected none"
fi
exit $bad
