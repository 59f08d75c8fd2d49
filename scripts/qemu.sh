#!/usr/bin/env bash
# Unpacks the QEMU that the tests of NIC drivers need (qtest, igb, vfio-user): qemu.sh DIR [--pin]
# Afterwards DIR has qemu-system-x86_64, which runs with its own libraries and needs no chroot and no
# privilege. Installs nothing. Does nothing if DIR has it. Exits with status 77, and prints the reason,
# if the packages cannot be fetched.
#
# The packages are those of qemu.packages: each is pinned by its version and its SHA-256. The archive is
# the one that this machine's apt uses. With --pin, the list is written again from what the archive has.
set -euo pipefail

dir=${1:?directory}
here=$(dirname "$(realpath "$0")")
list=$here/qemu.packages
. "$here/debian-packages.sh"
prepare QEMU

# Only packages that contain libraries or QEMU's files are unpacked.
is_needed() { dpkg-deb -c "$1" | grep -qE 'lib/x86_64-linux-gnu/.*\.so|share/(qemu|seabios)/'; }

[ "${2:-}" != --pin ] || pin_list "trixie trixie-backports" qemu-system-x86

stamp=$(cat "$0" "$here/debian-packages.sh" "$list" | sha256sum)
[ "$(cat "$dir/stamp" 2> /dev/null)" != "$stamp" ] || exit 0
unpack_list "scripts/qemu.sh DIR --pin"

cat > "$dir/qemu-system-x86_64" << 'EOF'
#!/bin/sh
# Written by scripts/qemu.sh.
root=$(dirname "$(realpath "$0")")/root
libraries=$root/usr/lib/x86_64-linux-gnu
export QEMU_MODULE_DIR="$libraries/qemu"
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$libraries" "$root/usr/bin/qemu-system-x86_64" \
    -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" "$@"
EOF
chmod +x "$dir/qemu-system-x86_64"
"$dir/qemu-system-x86_64" --version > /dev/null
echo "$stamp" > "$dir/stamp"
