#!/bin/sh
# Creates a kernel and an initrd in DIR for the virtual machines of tests, from Debian's packages: kit.sh DIR
# Installs nothing. Does nothing if DIR has both. Exits with status 77, and prints the reason, if the
# packages are not available.
set -eu

dir=${1:?} here=$(dirname "$0")
mkdir -p "$dir"
exec 9> "$dir/lock" && flock 9

stamp=$(cat "$0" "$here/init" | sha256sum)
if [ "$(cat "$dir/stamp" 2> /dev/null)" = "$stamp" ]; then exit 0; fi

skip() { echo "$*"; exit 77; }

command -v apt-get > /dev/null || skip "no apt-get to fetch a kernel by"
[ "$(dpkg --print-architecture)" = amd64 ] || skip "guests are for amd64"

# Unpacks a package to $dir/unpacked.
fetch() {
    (cd "$dir/fetched" && apt-get -qq -o APT::Sandbox::User=root download "$1") >> "$dir/log" 2>&1 || return 1
    dpkg-deb -x "$dir/fetched/$1"_*.deb "$dir/unpacked"
}

# Prints the name of the package of the newest kernel, on which linux-image-cloud-amd64 depends.
kernel() { apt-cache depends linux-image-cloud-amd64 2> /dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p'; }

rm -rf "$dir/fetched" "$dir/unpacked" "$dir/root"
mkdir -p "$dir/fetched" "$dir/unpacked"
[ -n "$(kernel)" ] && fetch "$(kernel)" || {
    "$here/../../../../scripts/apt.sh" update >> "$dir/log" 2>&1 || skip "Debian's list of packages cannot be fetched"
    fetch "$(kernel)" || skip "Debian's kernel cannot be fetched"
}
fetch busybox-static || skip "Debian's busybox-static cannot be fetched"

busybox=$dir/unpacked/bin/busybox
release=$(ls "$dir/unpacked/lib/modules")
modules=$dir/root/lib/modules/$release
mkdir -p "$dir/root/bin" "$dir/root/proc" "$modules"
cp "$busybox" "$dir/root/bin/"
cp "$here/init" "$dir/root/init"
chmod 755 "$dir/root/init"
for name in net/core/failover drivers/net/net_failover drivers/net/virtio_net drivers/virtio/virtio \
    drivers/virtio/virtio_ring drivers/virtio/virtio_pci_modern_dev drivers/virtio/virtio_pci_legacy_dev \
    drivers/virtio/virtio_pci; do
    # Some kernels have some of these modules built in, so a missing file is no error.
    cp "$dir/unpacked/lib/modules/$release/kernel/$name.ko" "$modules/" 2> /dev/null || true
done
"$busybox" depmod -b "$dir/root" "$release"
(cd "$dir/root" && find . | "$busybox" cpio -o -H newc 2> /dev/null) | gzip -1 > "$dir/initrd"
cp "$dir/unpacked/boot/vmlinuz-$release" "$dir/kernel"
rm -rf "$dir/fetched" "$dir/unpacked" "$dir/root"
echo "$stamp" > "$dir/stamp"
