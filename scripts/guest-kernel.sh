#!/bin/sh
# Unpacks the stock kernel of a Debian suite for virtual machines of tests: guest-kernel.sh SUITE DIR
# Afterwards DIR has vmlinuz, lib/modules/RELEASE with modules.dep, busybox (static), release (the kernel's) and
# versions (packages, versions and checksums). Installs nothing. Does nothing if DIR has them. Exits with
# status 77, and prints the reason, if the packages are not available.
#
# The archive is the one that this machine's apt uses. apt checks the signature of the suite's package lists, and
# checks the packages by these lists. Lists and packages of other suites stay in DIR, apart from the machine's.
set -eu

suite=${1:?suite} dir=${2:?directory}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9> "$dir/lock" && flock 9

stamp=$(cat "$0" | sha256sum)
if [ "$(cat "$dir/stamp" 2> /dev/null)" = "$stamp $suite" ]; then exit 0; fi

skip() { echo "$*"; exit 77; }

command -v apt-get > /dev/null || skip "no apt-get to fetch a kernel by"
[ "$(dpkg --print-architecture)" = amd64 ] || skip "guests are for amd64"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keys" ] || skip "no keys of Debian's archive: install debian-archive-keyring"
# The first archive with the component main whose path ends in /debian.
archive=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' 2> /dev/null |
    sed -n 's|^\([^ ]*/debian/*\) main$|\1|p' | head -n 1)
[ -n "$archive" ] || skip "this machine's apt knows no archive of Debian"

rm -rf "$dir/apt" "$dir/fetched" "$dir/unpacked" "$dir/lib" "$dir/stamp"
mkdir -p "$dir/apt/state/lists/partial" "$dir/apt/cache/archives/partial" "$dir/apt/parts" "$dir/fetched"
: > "$dir/apt/status"
echo "deb [signed-by=$keys] $archive $suite main" > "$dir/apt/sources.list"

# Runs a program of apt with package lists of its own.
own() {
    program=$1
    shift
    "$program" -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Sandbox::User=root \
        -o Dir::State="$dir/apt/state" -o Dir::State::status="$dir/apt/status" -o Dir::Cache="$dir/apt/cache" \
        -o Dir::Etc::sourcelist="$dir/apt/sources.list" -o Dir::Etc::sourceparts="$dir/apt/parts" \
        -o Acquire::Languages=none "$@"
}

# Prints the dependencies of the package $1 whose names match $2.
depends() { own apt-cache depends "$1" 2> /dev/null | sed -n "s/.*Depends: \($2\)/\1/p"; }

fetch() {
    (cd "$dir/fetched" && own apt-get -qq download "$1") >> "$dir/log" 2>&1 &&
        dpkg-deb -x "$dir/fetched/$1"_*.deb "$dir/unpacked"
}

own apt-get -qq update >> "$dir/log" 2>&1 || skip "the lists of Debian's $suite cannot be fetched"
image=$(depends linux-image-amd64 'linux-image-[0-9].*' | head -n 1)
[ -n "$image" ] || { echo "Debian's $suite has no linux-image-amd64"; exit 1; }
# Newer suites split the image into several packages.
for package in busybox-static "$image" $(depends "$image" 'linux-\(binary\|modules\|base\)-[0-9].*'); do
    fetch "$package" || skip "Debian's $package cannot be fetched from $suite"
done

# In newer suites, lib and bin are below usr.
for at in "$dir/unpacked" "$dir/unpacked/usr"; do
    [ ! -d "$at/lib/modules" ] || cp -a "$at/lib" "$dir/"
    [ ! -e "$at/bin/busybox" ] || cp "$at/bin/busybox" "$dir/busybox"
done
release=$(ls "$dir/lib/modules")
for at in "$dir/unpacked/boot/vmlinuz-$release" "$dir/lib/modules/$release/vmlinuz"; do
    [ ! -e "$at" ] || cp "$at" "$dir/vmlinuz"
done
[ -e "$dir/vmlinuz" ] || { echo "Debian's $image has no kernel where it was expected"; exit 1; }
echo "$release" > "$dir/release"
# Writes modules.dep (which module needs which). It is written here, because several tests may read
# it at once.
"$dir/busybox" depmod -b "$dir" "$release"
(cd "$dir/fetched" && sha256sum ./*.deb) > "$dir/versions"
rm -rf "$dir/apt" "$dir/fetched" "$dir/unpacked"
echo "$stamp $suite" > "$dir/stamp"
