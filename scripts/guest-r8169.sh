#!/bin/sh
# Boots a stock kernel with its r8169 driver on the model of the card, over vfio-user:
#   guest-r8169.sh KERNEL_DIR CHIP
# KERNEL_DIR is a directory of guest-kernel.sh; MODEL and QEMU: guest-model.sh. Prints the guest's lines and the
# model's report. Succeeds if the driver probed, the link came up, all pings were answered, and the model saw no
# violation.
set -eu

kernel=${1:?} chip=${2:?}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/guest-model.sh"
peer=10.9.8.1

"$here/guest-initrd.sh" "$kernel" "$dir/initrd" "$here/guest-r8169-init" realtek r8169
start_model $peer
run_guest 256 "peer=$peer" -cpu max

grep -aqx 'guest: done' "$dir/lines" || fail "the guest did not finish" 40
[ "$(grep -ac '^guest: \(small\|large\) 20 packets transmitted, 20 packets received' "$dir/lines")" = 4 ] ||
    fail "pings were lost"
grep -aqx 'guest: link' "$dir/lines" || fail "the link did not come up"
case "$report" in
    *'"violations":0,'*) ;;
    *) fail "the driver and the model disagree" ;;
esac
[ ! -s "$dir/faults" ] || fail "the model says: $(cat "$dir/faults")"
