#!/bin/sh
# Packs an initial file system for a virtual machine that runs tests:
#   guest-initrd.sh KERNEL_DIR OUT INIT MODULE... [-- NAME=FILE...]
# KERNEL_DIR is a directory that guest-kernel.sh made. INIT is the first program, a script for
# busybox. The modules and those that they need are packed uncompressed, since busybox's insmod
# cannot read compressed ones; /modules lists them in the order of loading. Each FILE is packed as
# /NAME.
set -eu

kernel=${1:?} out=${2:?} init=${3:?}
shift 3
kernel=$(cd "$kernel" && pwd)
busybox=$kernel/busybox
release=$(cat "$kernel/release")
from=$kernel/lib/modules/$release
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# mktemp gives only root access to the directory, but the guest also has other users.
chmod 755 "$root"
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/lib"
cp "$busybox" "$root/bin/busybox"
cp "$init" "$root/init"
chmod 755 "$root/init"
: > "$root/modules"

# Packs a module, given by its path below lib/modules/RELEASE, unless it is packed already, and
# appends its name to /modules.
pack() {
    name=$(basename "$1" | sed 's/\.ko.*/.ko/')
    ! grep -qx "$name" "$root/modules" || return 0
    case "$1" in
        *.xz) "$busybox" unxz -c "$from/$1" > "$root/lib/$name" ;;
        *.zst) zstd -qdc "$from/$1" > "$root/lib/$name" ;;
        *) cp "$from/$1" "$root/lib/$name" ;;
    esac
    echo "$name" >> "$root/modules"
}

while [ $# -gt 0 ] && [ "$1" != -- ]; do
    # A module's file name may have - where its module name has _, and the reverse, so either
    # matches.
    pattern=$(echo "$1" | sed 's/[-_]/[-_]/g')
    line=$(grep -E "(^|/)$pattern\.ko[^:]*:" "$from/modules.dep" || true)
    if [ -n "$line" ]; then
        # modules.dep lists the modules that this one needs in reverse order of loading.
        needed=$(echo "${line#*:}" | tr ' ' '\n' | tac)
        for path in $needed "${line%%:*}"; do pack "$path"; done
    elif ! grep -qE "(^|/)$pattern\.ko" "$from/modules.builtin" 2> /dev/null; then
        echo "guest-initrd.sh: kernel $release has no module $1" >&2
        exit 1
    fi
    shift
done
[ $# -eq 0 ] || shift
for file; do
    mkdir -p "$(dirname "$root/${file%%=*}")"
    cp "${file#*=}" "$root/${file%%=*}"
done
(cd "$root" && find . | "$busybox" cpio -o -H newc 2> /dev/null) | gzip -1 > "$out.new"
mv "$out.new" "$out"
