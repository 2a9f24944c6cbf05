#!/bin/sh
# install-deps.sh - install what building and testing need, on Debian and Ubuntu. Does nothing, fast, when all is there.
# NO_INSTALL=1 skips. Looks for files rather than asking dpkg, so that libraries from elsewhere count.
[ "${NO_INSTALL:-0}" = 1 ] && exit 0

has() { command -v "$1" >/dev/null 2>&1; }
# A header under /usr/include, or anywhere the compiler finds it.
header() {
    [ -e "/usr/include/$1" ] && return 0
    has "${CC:-gcc}" && echo "#include <$1>" | ${CC:-gcc} -E -x c - >/dev/null 2>&1
}

need=
add() { need="$need $1"; }
has gcc || has clang || add gcc
[ -e /usr/include/stdio.h ] || add libc6-dev
has make || add make
has pkg-config || add pkg-config
header glpk.h || add libglpk-dev
header cjson/cJSON.h || add libcjson-dev
[ -e /usr/include/cminpack-1/cminpack.h ] || header cminpack.h || add libcminpack-dev
header check.h || add check
has gnuplot || add gnuplot-nox
[ -e /usr/include/libxml2/libxml/parser.h ] || header libxml/parser.h || add libxml2-dev
# for ballast-exec: ranks on MPI (whose launcher wants ssh), products by BLAS
pkg_has() { has pkg-config && pkg-config --exists "$1"; }
pkg_has ompi-c || add libopenmpi-dev
has mpirun || add openmpi-bin
has ssh || add openssh-client
pkg_has openblas || add libopenblas-pthread-dev
# for tools/cjson-source.sh, which is apt-get's too
if has apt-get && [ ! -e "$(${CC:-gcc} -print-file-name=libcjson.a 2>/dev/null)" ]; then
    has patch || add patch
    has xz || add xz-utils
fi
[ -z "$need" ] && exit 0

install="apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends$need"
echo "missing:$need" >&2
if ! has apt-get; then
    echo "error: no apt-get here; install what these Debian packages hold:$need" >&2
    exit 4
fi
as=
if [ "$(id -u)" != 0 ]; then
    as=sudo
    if ! has sudo; then
        echo "error: not root and no sudo; run as root: $install" >&2
        exit 4
    fi
fi
update() {
    echo "running: $as apt-get update" >&2
    $as apt-get -o DPkg::Lock::Timeout=300 -qq update >&2
}
run() {
    echo "running: $as $install" >&2
    $as env DEBIAN_FRONTEND=noninteractive $install >&2
}
# A fresh container has no package lists; an old machine may have stale ones.
set -- /var/lib/apt/lists/*_Packages*
if [ -e "$1" ]; then
    run || { update && run; } || exit 4
else
    update && run || exit 4
fi
