#!/usr/bin/env bash
# Creates a kernel, and an initrd with its modules and a busybox, in DIR for the virtual machines in which
# `slipring nic` is tested: kit.sh DIR
# They come from packages of Debian 13, whatever runs here. Installs nothing; does nothing if DIR has both.
# Exits with status 77, and prints the reason, if the packages are not available.
set -euo pipefail

mkdir -p "${1:?}"
# apt takes relative paths for others.
readonly DIR=$(cd "$1" && pwd) SUITE=trixie
# What the guest loads. Dependencies come along.
readonly MODULES="vfio-pci vfio_iommu_type1 e1000e e1000 virtio_net virtio_pci tun af_packet bridge"

exec 9> "$DIR/lock"
flock 9
stamp=$(sha256sum < "$0")
if [ "$(cat "$DIR/stamp" 2> /dev/null)" = "$stamp" ]; then exit 0; fi

skip() { echo "$*"; exit 77; }

command -v apt-get > /dev/null || skip "no apt-get to fetch a kernel by"
[ "$(dpkg --print-architecture)" = amd64 ] || skip "guests are for amd64"

# An archive of its own: the machine's package lists and its sources stay as they are.
readonly APT=$DIR/apt
mkdir -p "$APT/parts" "$APT/lists/partial" "$APT/cache/archives/partial"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/*$' || true)
[ -n "$mirror" ] || skip "apt has no archive of Debian"
readonly KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$KEYS] $mirror $SUITE main" > "$APT/sources.list"
options=(-o "Dir::Etc::sourcelist=$APT/sources.list" -o "Dir::Etc::sourceparts=$APT/parts" -o "Dir::State::lists=$APT/lists"
    -o "Dir::Cache=$APT/cache" -o APT::Sandbox::User=root)

# Downloads a package, whose hash the signed index has, and unpacks it to $DIR/unpacked.
fetch() {
    (cd "$DIR/fetched" && apt-get -qq "${options[@]}" download "$1") >> "$DIR/log" 2>&1 || return 1
    dpkg-deb -x "$DIR/fetched/${1}"_*.deb "$DIR/unpacked"
}

# The package of the newest kernel, which the package linux-image-amd64 depends on.
kernel() {
    apt-cache "${options[@]}" depends linux-image-amd64 2> /dev/null |
        sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p'
}

rm -rf "$DIR/fetched" "$DIR/unpacked" "$DIR/root" "$DIR/log"
mkdir -p "$DIR/fetched" "$DIR/unpacked"
apt-get -qq "${options[@]}" update >> "$DIR/log" 2>&1 || skip "Debian's list of packages cannot be fetched"
fetch "$(kernel)" || skip "Debian's kernel cannot be fetched"
fetch busybox-static || skip "Debian's busybox-static cannot be fetched"

busybox=$(find "$DIR/unpacked" -name busybox -type f -perm -1 | head -n 1)
tree=$(find "$DIR/unpacked" -type d -path '*/lib/modules/*' -prune | head -n 1)
release=${tree##*/}
root=$DIR/root
mkdir -p "$root"/{bin,proc,sys,dev,run,tmp,etc} "$root/lib/modules/$release"
chmod 755 "$root"
cp "$busybox" "$root/bin/busybox"

# Copies a module and what it depends on, unpacked, since busybox reads no xz. The package has no list of
# dependencies: it is made for all modules first.
"$busybox" depmod -b "${tree%/lib/modules/*}" "$release" 2> /dev/null || true
declare -A copied
copy() {
    local name=${1//-/_} line file
    [ -z "${copied[$name]:-}" ] || return 0
    copied[$name]=1
    line=$(sed 's/-/_/g' "$tree/modules.dep" | grep -nE "(^|/)$name\.ko[^:]*:" | head -n 1) || true
    [ -n "$line" ] || return 0 # It is a part of the kernel.
    line=$(sed -n "${line%%:*}p" "$tree/modules.dep")
    file=${line%%:*}
    local target=$root/lib/modules/$release/$(basename "${file%.xz}")
    case $file in
        *.xz) xz -dc "$tree/$file" > "$target" ;;
        *)    cp "$tree/$file" "$target" ;;
    esac
    for file in ${line#*:}; do
        file=$(basename "$file")
        copy "${file%%.ko*}"
    done
}
for module in $MODULES; do copy "$module"; done
"$busybox" depmod -b "$root" "$release"
(cd "$root" && find . | "$busybox" cpio -o -H newc 2> /dev/null) | gzip -1 > "$DIR/initrd"
cp "$busybox" "$DIR/busybox"
cp "$DIR/unpacked/boot/vmlinuz-$release" "$DIR/kernel"
rm -rf "$DIR/fetched" "$DIR/unpacked" "$root" "$APT"
echo "$stamp" > "$DIR/stamp"
