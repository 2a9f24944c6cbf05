#!/bin/sh
# probe.sh NAME - prints yes or no: does a program with this library compile and link here? CC and CUDA_HOME count.
# The header comes in with -include, so that no '#' has to pass through make's $(shell).
CC=${CC:-gcc}
CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}

links() { # header, flags...
    header=$1
    shift
    if echo 'int main(void) { return 0; }' |
        $CC -x c - -x none -include "$header" -o /dev/null "$@" 2>/dev/null; then
        echo yes
    else
        echo no
    fi
}
pkg() { pkg-config "$@" 2>/dev/null; }

case $1 in
glpk) links glpk.h -lglpk -lm ;;
cjson) links cjson/cJSON.h $(pkg --cflags --libs libcjson || echo -lcjson) ;;
check) links check.h $(pkg --cflags --libs check || echo -lcheck -lsubunit -lrt -lm -pthread) ;;
libxml2) links libxml/parser.h $(pkg --cflags --libs libxml-2.0 || echo -I/usr/include/libxml2 -lxml2) ;;
mpi) links mpi.h $(pkg --cflags --libs ompi-c || pkg --cflags --libs mpich || echo -lmpi) ;;
blas) links cblas.h $(pkg --cflags --libs openblas || echo -lopenblas) ;;
cuda) links cuda_runtime_api.h -I"$CUDA_HOME/include" -L"$CUDA_HOME/lib64" -lcudart ;;
nccl) links nccl.h -I"$CUDA_HOME/include" -L"$CUDA_HOME/lib64" -lnccl ;;
gnuplot) command -v gnuplot >/dev/null && echo yes || echo no ;;
*) echo "probe.sh: unknown '$1'" >&2; exit 2 ;;
esac
