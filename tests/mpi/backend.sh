#!/bin/sh
# backend.sh - ranks that cannot all open a backend, and a call between ranks that does not return. A ballast-cuda.so of our own,
# made of the cpu backend, plays the one that is there on some ranks only (BAD: the rank where it is not usable), or whose ranks all
# wait in a library (STUCK).
. tests/mpi/lib.sh
mkdir -p "$work/bin"
cp "$BUILD/ballast-exec" "$BUILD"/ballast-mpi.so "$work/bin"
cat >"$work/fake.c" <<'END'
#include "exec/backend.h"

#include <stdlib.h>
#include <unistd.h>

struct backend_library backend_library;

static int usable(const struct backend_options *o, struct err *e)
{
    const char *bad = getenv("BAD");

    return bad && strtoul(bad, NULL, 10) == o->transport->rank ? err_set(e, ERR_EXTERNAL, "planted") : 0;
}

static int open_it(struct backend *b, const struct backend_options *o, struct err *e)
{
    guard_enter(o->guard, "planted");
    while (getenv("STUCK"))
        pause();
    guard_leave(o->guard);
    if (o->transport->rank == 0 && write(2, "fake\n", 5) != 5)
        return -1;
    return backend_cpu.open(b, o, e);
}

__attribute__((constructor)) static void make(void)
{
    backend_library = backend_cpu;
    backend_library.usable = usable;
    backend_library.open = open_it;
}
END
if ! ${CC:-gcc} -std=c11 -D_XOPEN_SOURCE=700 -I. -shared -fPIC -o "$work/bin/ballast-cuda.so" "$work/fake.c" >"$work/out" 2>"$work/err"; then
    bad 'a backend of our own'
    end
fi
plan p.json 2 owner
BUILD=$work/bin

on 2 "$work/p.json" --backend auto --check
verdict 'auto where all ranks have it'
grep -qx fake "$work/err" && good || bad 'auto did not take it'
for rank in 0 1; do
    export BAD=$rank
    on 2 "$work/p.json" --backend auto --check
    verdict "auto where rank $rank has none"
    [ "$(grep -cx "backend: cpu (cuda: rank $rank: planted)" "$work/err")" = 1 ] && ! grep -qx fake "$work/err" && good ||
        bad "auto without one on rank $rank"
done
unset BAD
export STUCK=1
on 2 "$work/p.json" --backend cuda --check --watchdog 1
refused 'a call that does not return' 4 ': start: planted did not return for 1 s'
end
