#!/bin/sh
# Boots a stock kernel with its r8169 driver on the model of the card, over vfio-user:
#   guest-r8169.sh KERNEL_DIR CHIP
# KERNEL_DIR is a directory of guest-kernel.sh. MODEL is the model's program, QEMU the command of a QEMU
# that has vfio-user-pci (10.1 or newer). Prints the guest's lines and the model's report. Succeeds if the
# driver probed, the link came up, all pings were answered, and the model saw no violation.
set -eu

kernel=${1:?} chip=${2:?}
here=$(cd "$(dirname "$0")" && pwd)
: "${MODEL:?the program slipring-rtl-model}" "${QEMU:?a command that runs qemu-system-x86_64}"
peer=10.9.8.1
dir=$(mktemp -d)
# At the end of this script, the directory is removed, and the model ends because its standard input
# is closed.
trap 'exec 3>&-; rm -rf "$dir"' EXIT

"$here/guest-initrd.sh" "$kernel" "$dir/initrd" "$here/guest-r8169-init" realtek r8169
mkfifo "$dir/commands"
"$MODEL" "$dir/socket" "$chip" "$peer" < "$dir/commands" > "$dir/model" 2> "$dir/faults" &
model=$!
exec 3> "$dir/commands"
tries=0
until grep -q ready "$dir/model"; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "the model did not start: $(cat "$dir/faults")" >&2; exit 1; }
    sleep 0.1
done

# A limit against hangs: a run takes 15 s on an idle machine, and minutes on a busy one.
timeout -k 5 "${GUEST_TIMEOUT:-1200}" $QEMU -accel tcg -M q35,memory-backend=mem \
    -object memory-backend-memfd,id=mem,size=256M,share=on -m 256 -cpu max -smp 1 -nodefaults -no-reboot \
    -display none -serial stdio -kernel "$kernel/vmlinuz" -initrd "$dir/initrd" \
    -device '{"driver":"vfio-user-pci","socket":{"type":"unix","path":"'"$dir/socket"'"},"addr":"5","rombar":0}' \
    -append "console=ttyS0 panic=-1 quiet mitigations=off peer=$peer" < /dev/null > "$dir/guest" 2>&1 || true
echo report >&3
exec 3>&-
wait "$model" || true
tr -d '\r' < "$dir/guest" > "$dir/lines"
grep -a '^guest: ' "$dir/lines" || true
report=$(tail -n 1 "$dir/model")
echo "model: $report"

fail() {
    echo "guest-r8169.sh: $chip on $(cat "$kernel/release"): $1" >&2
    grep -av '^guest: ' "$dir/lines" | tail -n "${2:-15}" >&2
    exit 1
}
grep -aqx 'guest: done' "$dir/lines" || fail "the guest did not finish" 40
[ "$(grep -ac '^guest: \(small\|large\) 20 packets transmitted, 20 packets received' "$dir/lines")" = 4 ] ||
    fail "pings were lost"
grep -aqx 'guest: link' "$dir/lines" || fail "the link did not come up"
case "$report" in
    *'"violations":0,'*) ;;
    *) fail "the driver and the model disagree" ;;
esac
[ ! -s "$dir/faults" ] || fail "the model says: $(cat "$dir/faults")"
