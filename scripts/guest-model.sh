# Functions for scripts that boot a guest with the model of the card, over vfio-user. A script that sources this
# file has set `here`, the directory of the scripts, `kernel`, a directory of guest-kernel.sh, and `chip`. MODEL is the model's
# program, QEMU the command of a QEMU that has vfio-user-pci (10.1 or newer).
: "${MODEL:?the program slipring-rtl-model}" "${QEMU:?a command that runs qemu-system-x86_64}"
dir=$(mktemp -d)
# At the end of the script, the directory is removed, and the model ends because its standard input
# is closed.
trap 'exec 3>&-; rm -rf "$dir"' EXIT

# Starts the model: start_model WIRE
start_model() {
    mkfifo "$dir/commands"
    "$MODEL" "$dir/socket" "$chip" "$1" < "$dir/commands" > "$dir/model" 2> "$dir/faults" &
    model=$!
    exec 3> "$dir/commands"
    tries=0
    until grep -q ready "$dir/model"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { echo "the model did not start: $(cat "$dir/faults")" >&2; exit 1; }
        sleep 0.1
    done
}

# Runs the guest to its end, and sets `report` to the model's: run_guest MEBIBYTES WORDS [QEMU'S OPTION...]
# WORDS are for the kernel's command line. Prints the guest's lines and the report.
run_guest() {
    memory=$1 words=$2
    shift 2
    # A limit against hangs: a run takes 15 s on an idle machine, and minutes on a busy one. no_timer_check: a busy
    # computer gives the kernel fewer ticks of the timer than it expects.
    timeout -k 5 "${GUEST_TIMEOUT:-1200}" $QEMU -accel tcg -M q35,memory-backend=mem,kernel-irqchip=split \
        -object memory-backend-memfd,id=mem,size="${memory}M",share=on -m "$memory" -smp 1 -nodefaults -no-reboot \
        -display none -serial stdio -kernel "$kernel/vmlinuz" -initrd "$dir/initrd" "$@" \
        -device '{"driver":"vfio-user-pci","socket":{"type":"unix","path":"'"$dir/socket"'"},"addr":"5","rombar":0}' \
        -append "console=ttyS0 panic=-1 quiet no_timer_check mitigations=off $words" \
        < /dev/null > "$dir/guest" 2>&1 || true
    echo report >&3
    exec 3>&-
    wait "$model" || true
    tr -d '\r' < "$dir/guest" > "$dir/lines"
    grep -a '^guest: ' "$dir/lines" || true
    report=$(tail -n 1 "$dir/model")
    echo "model: $report"
}

# Ends the script, with the last lines of the guest: fail REASON [LINES]
fail() {
    echo "${0##*/}: $chip on $(cat "$kernel/release"): $1" >&2
    grep -av '^guest: ' "$dir/lines" | tail -n "${2:-15}" >&2
    exit 1
}
