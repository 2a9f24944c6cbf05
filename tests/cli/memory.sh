#!/bin/sh
# memory.sh - when memory is short a command says so in one line and ends with status 4, whoever of it and its libraries (libxml2,
# GLPK, cJSON) wanted the memory: no other answer, no abort. Every so many-th allocation fails, alone or with all that follow.
# Ends with "passed failed skipped".
ROOT=$(pwd)
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$ROOT/$BUILD ;; esac
export LC_ALL=C
passed=0 failed=0
work=$(mktemp -d "${TMPDIR:-/tmp}/ballast-memory.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

if [ "$SAN" = 1 ]; then
    echo "skipped: memory.sh: a sanitizer has the allocator"
    echo "0 0 1"
    exit 0
fi
if ! ${CC:-gcc} -shared -fPIC -O1 -o "$work/fail.so" "$ROOT/tests/cli/fail_alloc.c" 2>"$work/err" ||
    [ "$(LD_PRELOAD=$work/fail.so sh -c 'echo yes' 2>"$work/err")" != yes ]; then
    echo "skipped: memory.sh: allocations cannot be replaced here: $(head -n 1 "$work/err")"
    echo "0 0 1"
    exit 0
fi

# name step last arguments...
fails() {
    name=$1 step=$2 last=$3
    shift 3
    "$BUILD/ballast" "$@" 2>/dev/null | sed 's/,[^,]*$//' >"$work/expected"
    short=0 i=1
    while [ $i -le "$last" ]; do
        for once in 1 ''; do
            LD_PRELOAD=$work/fail.so FAIL_AT=$i ONCE=$once "$BUILD/ballast" "$@" >"$work/out" 2>"$work/err" </dev/null
            status=$?
            case $status in
            0) # the last column of a plan's csv is the time that it took
                sed 's/,[^,]*$//' "$work/out" | cmp -s - "$work/expected" || { bad "$name, allocation $i: another answer"; return; } ;;
            4)
                short=$((short + 1))
                # before main the loader and C's start may speak for themselves
                [ "$(grep -c 'ERR_EXTERNAL' "$work/err")" = 1 ] && grep -Eq 'out of memory|no memory' "$work/err" ||
                    { bad "$name, allocation $i: status 4 without its line"; return; }
                ;;
            127) ;; # the loader's own
            *) bad "$name, allocation $i: status $status"; return ;;
            esac
        done
        i=$((i + step))
    done
    if [ $short -gt 20 ]; then passed=$((passed + 1)); else bad "$name: only $short failures met"; fi
}
bad() {
    failed=$((failed + 1))
    echo "failed: memory.sh: $1"
    sed 's/^/  stderr| /' "$work/err" | tail -n 5
}

cat >"$work/topo.xml" <<'X'
<system version="1">
  <cpu numaid="0" affinity="00000000,0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:21:00.0" count="12" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:21:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0000:11:00.0" count="12" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" maxconn="131072" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
X
"$BUILD/ballast" topo "$work/topo.xml" >/dev/null 2>"$work/err"
[ $? -le 1 ] || bad "the topology is read"
fails "topo of an XML file" 3 700 topo "$work/topo.xml"
fails "plan by GLPK" 11 2400 plan block:layers=5,hidden=520,ffn=1304,heads=4,kv-heads=2,mlp=swiglu,vocab=331 --gpus 7 --layout owner --format csv -o "$work/plan.json"
fails "sim" 23 4000 sim gpt2 --layout zero3 --format json
echo "$passed $failed 0"
[ $failed = 0 ]
