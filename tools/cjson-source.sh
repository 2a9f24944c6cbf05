#!/bin/sh
# cjson-source.sh FOLDER - prints the path of a cJSON.c that is the source of this machine's libcjson, for programs that have to run where
# there is none: Debian's and Ubuntu's package has no libcjson.a. What FOLDER holds from an earlier call is taken; else the distribution's
# source package is fetched and its patches are applied. Status 1, and one line on stderr that says why, when it cannot be had.
#
# apt-get fetches and checks it as it does all packages: signed Release file, its sums of Sources, their sums of the archives. It gets a
# configuration, a list of sources and folders of its own, so that nothing of the machine's changes, and it needs no root.
fail() {
    echo "cJSON's source: $*" >&2
    exit 1
}
[ $# = 1 ] || { echo 'usage: cjson-source.sh FOLDER' >&2; exit 2; }
has() { command -v "$1" >/dev/null 2>&1; }
has dpkg-query && version=$(dpkg-query -W -f '${source:Package} ${source:Version}' libcjson-dev 2>/dev/null) && [ -n "$version" ] ||
    fail 'libcjson-dev is no package of this machine'
package=${version% *} version=${version#* }
upstream=${version%-*}
mkdir -p "$1" && folder=$(cd "$1" && pwd) || exit 1
to=$folder/$version
if [ -e "$to/cJSON.c" ]; then
    echo "$to/cJSON.c"
    exit
fi
[ "${NO_INSTALL:-0}" = 1 ] && fail 'not fetched, as NO_INSTALL=1 says'
for tool in apt-get apt-cache tar xz patch; do
    has $tool || fail "needs $tool"
done

work=$(mktemp -d "$folder/fetch.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
# as root apt-get works as a user of its own
chmod 755 "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/got" "$work/source"
cat >"$work/apt.conf" <<END
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "$work/lists";
Dir::Cache "$work/cache";
Acquire::Languages "none";
Acquire::Retries "0";
Acquire::http::Timeout "10";
Acquire::https::Timeout "10";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
END
apt() { timeout 120 apt-get -c "$work/apt.conf" -q "$@" >>"$work/log" 2>&1; }

# "URI suite component file" of every source of packages here
apt-get indextargets 'Created-By: Packages' 2>/dev/null | awk '
    $1 == "Repo-URI:" { uri = $2 }
    $1 == "Release:" { suite = $2 }
    $1 == "Component:" { component = $2 }
    $1 == "Sourcesentry:" { file = $2; sub(/:[0-9]*$/, "", file) }
    !NF && uri { print uri, suite, component, file; uri = "" }
    END { if (uri) print uri, suite, component, file }' | sort -u >"$work/all"
# those that are known to have the package, all of them where no lists are kept; updates and security first, whose lists are short
apt-cache madison libcjson-dev 2>/dev/null | awk -F ' *\\| *' '{ split($3, p, " "); print p[1], p[2] }' |
    sort -u >"$work/known"
awk 'NR == FNR { uri = $1; sub(/\/$/, "", uri); known[uri " " $2]; n++; next }
    { uri = $1; sub(/\/$/, "", uri); if (!n || (uri " " $2 "/" $3) in known) print }' "$work/known" "$work/all" |
    awk '{ print length($2), $0 }' | sort -k 1,1nr -k 2 | cut -d ' ' -f 2- >"$work/sources"

why='apt-get knows no source of it'
while read -r uri suite component file; do
    keys=$(sed -n 's/^Signed-By: *\(\/[^ ]*\)$/\1/p; s/^deb .*signed-by=\([^] ]*\).*/\1/p' "$file" 2>/dev/null | sort -u | paste -s -d , -)
    echo "deb-src ${keys:+[signed-by=$keys] }$uri $suite $component" >"$work/sources.list"
    rm -f "$work"/got/* "$work/log"
    apt update && (cd "$work/got" && apt source --download-only "$package") || {
        why="apt-get source $package fails for $uri $suite: $(grep '^[EW]: ' "$work/log" | head -n 1 | cut -c1-160)"
        continue
    }
    set -- "$work"/got/*.orig.tar.* "$work"/got/*.debian.tar.*
    [ $# = 2 ] && [ -e "$1" ] && [ -e "$2" ] || { why="$package from $uri $suite is no tarball with patches"; continue; }
    case ${1##*/} in
    "${package}_$upstream".orig.tar.*) break ;;
    esac
    why="$uri $suite has ${1##*/}, and libcjson-dev here is $version"
    set --
done <"$work/sources"
[ $# = 2 ] || fail "$why"

tar -x -f "$1" -C "$work/source" --strip-components=1 && tar -x -f "$2" -C "$work/source" debian || fail "${1##*/} cannot be unpacked"
series=$work/source/debian/patches/series
[ -e "$series" ] || series=/dev/null
while read -r p _; do
    case $p in '' | '#'*) continue ;; esac
    patch -s -d "$work/source" -p1 <"$work/source/debian/patches/$p" >>"$work/log" 2>&1 || fail "the package's patch $p does not apply"
done <"$series"
mkdir "$work/keep" && cp "$work/source/cJSON.c" "$work/source/cJSON.h" "$work/keep" && chmod 755 "$work/keep" && mv "$work/keep" "$to" ||
    fail "cannot be put into $folder"
echo "$to/cJSON.c"
