#!/bin/sh
# Boots a guest in which DPDK's testpmd drives the model of the card, by vfio-pci behind an emulated IOMMU:
#   guest-dpdk.sh KERNEL_DIR DPDK_DIR CHIP
# KERNEL_DIR is a directory of guest-kernel.sh, DPDK_DIR one of dpdk.sh; MODEL and QEMU: guest-model.sh. Prints the
# guest's lines and the model's report. Succeeds if the driver probed, the link came up, frames were sent and
# received, also after the port was started again, and the model saw no violation but the known one.
set -eu

kernel=${1:?} dpdk=${2:?} chip=${3:?}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/guest-model.sh"

# shellcheck disable=SC2046
"$here/guest-initrd.sh" "$kernel" "$dir/initrd" "$here/guest-dpdk-init" vfio-pci vfio_iommu_type1 -- $(cat "$dpdk/files")
start_model loop
# Without pages of 1 GiB, testpmd looks for no memory of this size. Its addresses have more than 39 bits.
run_guest 512 intel_iommu=on -cpu max,pdpe1gb=off -device intel-iommu,caching-mode=on,intremap=on,aw-bits=48

grep -aqx 'guest: done' "$dir/lines" || fail "the guest did not finish" 60
grep -aqx 'guest: link' "$dir/lines" || fail "the link did not come up" 60
[ "$(grep -acx 'guest: forwarded' "$dir/lines")" = 2 ] || fail "frames were lost" 60
# The driver clears a bit of Config1 after it has locked this register again. The chip ignores such a write.
known=$(echo "$report" | grep -o 'LockedWrite { offset: 52 }' | wc -l)
case "$report" in
    *"\"violations\":$known,"*) ;;
    *) fail "the driver and the model disagree" ;;
esac
