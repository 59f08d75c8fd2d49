#!/usr/bin/env bash
# Runs `slipring nic` and `vfio:` ports in virtual machines, on emulated cards behind an emulated IOMMU:
#   guest.sh [MACHINE...]
# A machine is one of those of machine_of() below; all by default. Needs no KVM, and does not use it.
# The last line counts cases that passed, failed and were skipped.
set -uo pipefail
cd "$(dirname "$0")/.."

readonly TARGET=${CARGO_TARGET_DIR:-target}
readonly DIR=$TARGET/guest CASES=crates/nic/tests/guest
# Seconds until a machine that hangs is ended. The longest one takes a minute on an idle computer.
readonly MACHINE_TIMEOUT=${SLIPRING_GUEST_TIMEOUT:-600}

skip() {
    echo "skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    [ "${SLIPRING_NO_SKIP:-0}" != 1 ] || grep -v '^#' .ci/may-skip | grep -qxEf - <(echo "$*")
    exit
}

command -v qemu-system-x86_64 > /dev/null || skip "no qemu-system-x86_64"
mkdir -p "$DIR"
# The machines with all models of cards need this QEMU, because the distribution's QEMU may not have them all.
readonly NEWER_QEMU=$TARGET/qemu/qemu-system-x86_64
why=$(scripts/qemu.sh "$TARGET/qemu")
case $? in
    0)  ;;
    77) skip "no QEMU for guests: $why" ;;
    *)  echo "$why"; exit 1 ;;
esac
# Tests of other crates use the same kernel.
readonly KERNEL=$TARGET/guest-kernel/trixie
why=$(scripts/guest-kernel.sh trixie "$KERNEL")
case $? in
    0)  ;;
    77) skip "no kernel for guests: $why" ;;
    *)  echo "$why" "$(tail -n 3 "$KERNEL/log")"; exit 1 ;;
esac

# A static program, because the guest has no libraries. SLIPRING_GUEST_PROGRAM is one that was built elsewhere.
program=${SLIPRING_GUEST_PROGRAM:-$DIR/slipring}
if [ -z "${SLIPRING_GUEST_PROGRAM:-}" ]; then
    cargo rustc -q -p slipring --bin slipring -- -C target-feature=+crt-static || exit 1
    cp "$TARGET/debug/slipring" "$program"
fi
strip -o "$DIR/stripped" "$program" || exit 1
files=("bin/slipring=$DIR/stripped")
for file in "$CASES"/cases/*; do files+=("cases/${file##*/}=$file"); done
scripts/guest-initrd.sh "$KERNEL" "$DIR/initrd" "$CASES/init" vfio-pci vfio_iommu_type1 e1000e e1000 igb \
    virtio_net virtio_pci tun af_packet bridge fuse -- "${files[@]}" || exit 1

# Adds a card to the virtual machine: card CABLE PLACE MODEL[,OPTIONS]. Its hardware address ends with its place. A
# card of the model igb needs the next place, too, for the functions that it could have.
card() {
    machine+=(-netdev "hubport,id=n$2,hubid=$1"
        -device "${3%%,*},netdev=n$2,addr=$2,mac=52:54:00:00:00:$2,romfile=${3#"${3%%,*}"}")
}

# Adds a listener to a cable that takes every frame: sink CABLE. Without it, a card cannot send as long as no other
# card on the cable receives.
sink() {
    local sink=$DIR/$name.sink$1
    rm -f "$sink"
    machine+=(-netdev "dgram,id=s$1,local.type=unix,local.path=$sink,remote.type=unix,remote.path=$DIR/none"
        -netdev "hubport,id=h$1,hubid=$1,netdev=s$1")
}

# Sets `qemu`, `machine` and `kernel_words`: a program, its options, and more words for the kernel's command line.
# `cards` are those of the three machines for `slipring nic`, at places 4 and 5, with a cable between them.
machine_of() {
    qemu=qemu-system-x86_64 kernel_words=
    machine=(-m 512 -smp 1 -cpu max -nodefaults -no-user-config -no-reboot -display none)
    local cards=(-netdev hubport,id=a,hubid=1 -netdev hubport,id=b,hubid=1 \
        -device e1000e,netdev=a,mac=52:54:00:00:00:01,addr=4,romfile= \
        -device e1000e,netdev=b,mac=52:54:00:00:00:02,addr=5,romfile=)
    case $1 in
        iommu)
            machine+=(-M q35,kernel-irqchip=split -device intel-iommu,intremap=on "${cards[@]}"
                -netdev hubport,id=c,hubid=2 -netdev hubport,id=d,hubid=2
                -device pcie-root-port,id=root,chassis=1,addr=6 -device pcie-pci-bridge,id=bridge,bus=root
                -device e1000,netdev=c,bus=bridge,addr=1,mac=52:54:00:00:00:03,romfile=
                -device e1000,netdev=d,bus=bridge,addr=2,mac=52:54:00:00:00:04,romfile=) ;;
        no-remapping) machine+=(-M q35,kernel-irqchip=split -device intel-iommu,intremap=off "${cards[@]}") ;;
        no-iommu)     machine+=(-M q35 "${cards[@]}") ;;
        # Cable 1 is at the first card of each model, cable 2 at the second, and each at a card for the kernel.
        ports | bridges | restart)
            qemu=$NEWER_QEMU
            local virtio=virtio-net-pci,disable-legacy=on,iommu_platform=on
            machine+=(-M q35,kernel-irqchip=split -device intel-iommu,intremap=on)
            sink 1; sink 2
            card 1 04 igb; card 2 06 igb
            card 1 08 e1000e; card 2 09 e1000e
            card 1 0a e1000; card 2 0b e1000
            card 1 0c $virtio; card 2 0d $virtio
            card 1 0e virtio-net-pci; card 2 0f virtio-net-pci ;;
        # Time is the number of executed instructions. The kernel's own drivers are spared the IOMMU.
        figures)
            qemu=$NEWER_QEMU kernel_words=iommu=pt
            machine+=(-M q35,kernel-irqchip=split -device intel-iommu,intremap=on -icount "shift=0,sleep=on")
            sink 1; sink 2
            card 1 08 e1000e; card 1 0e virtio-net-pci; card 2 0f virtio-net-pci ;;
        *)            echo "guest.sh: no machine $1" >&2; exit 2 ;;
    esac
}

# Runs a machine, and prints its cases and how long it took. Succeeds if it got through.
run_machine() {
    local name=$1 start=$SECONDS
    local console=$DIR/$name.console log=$DIR/$name.log
    machine_of "$name"
    # no_timer_check: on a busy computer, the kernel finds fewer ticks of the timer than it expects, and gives up.
    # In the foreground, the machine is in the process group of this script, and ends with it.
    timeout --foreground "$MACHINE_TIMEOUT" $qemu -accel tcg "${machine[@]}" \
        -serial "file:$console" -kernel "$KERNEL/vmlinuz" -initrd "$DIR/initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check mitigations=off intel_iommu=on $kernel_words cases=$name" < /dev/null 2> "$log"
    tr -d '\r' < "$console" >> "$log"
    grep -aE '^(ok|FAIL|figure: |    )' "$log"
    if ! grep -aq '^guest: done' "$log"; then
        echo "FAIL $name: the machine did not get through; $log:"
        tail -n 20 "$log"
    fi
    echo "$name: $((SECONDS - start)) s"
}

[ $# -gt 0 ] || set -- bridges ports figures iommu restart no-remapping no-iommu
for name in "$@"; do machine_of "$name"; done
# As many machines at once as there are processors, since each uses one. The longest ones come first.
jobs=$(nproc)
for name in "$@"; do
    [ "$(jobs -rp | wc -l)" -lt "$jobs" ] || wait -n
    run_machine "$name" > "$DIR/$name.out" &
done
wait
passed=0 failed=0
for name in "$@"; do
    cat "$DIR/$name.out"
    passed=$((passed + $(grep -acE '^ok ' "$DIR/$name.out")))
    failed=$((failed + $(grep -acE '^FAIL ' "$DIR/$name.out")))
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
