#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs an example over veth, in namespaces that end with it:
#
#   run.sh ping|onoff|send|tc [OPTIONS of the example]      `run.sh ping --PrintHelp` lists them
#
#   this namespace: veth0, veth2, the simulated node  |  peer: 10.0.1.2 on veth1  |  peer2: 10.0.2.2 on veth3
#
# EXAMPLES names the directory of the programs (default: that of `make ns3`). Needs root, or user
# namespaces; ip, ethtool, and iperf3 for tc. SINK=iperf starts `iperf -s` for onoff instead of a sink of its own;
# SOURCE="PACKETS-PER-SECOND SECONDS BYTES" sends UDP to the node 10.0.1.11 instead. PRIORITY=1 runs the
# example at this real-time priority, on the last CPU; needs two CPUs, and CAP_SYS_NICE or `ulimit -r 2`.
set -euo pipefail

[ $# -gt 0 ] || { sed -n '3,13s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
if [ "${NS3_EXAMPLE_SANDBOX:-}" != 1 ]; then
    root=()
    [ "$(id -u)" = 0 ] || root=(--map-root-user)
    export NS3_EXAMPLE_SANDBOX=1
    exec unshare "${root[@]}" --mount --net --pid --fork --kill-child --mount-proc "$0" "$@"
fi

name=$1
shift
EXAMPLES=${EXAMPLES:-$here/../../target/ns3/examples}
program=$EXAMPLES/fd-netmap-emu-$name
[ -x "$program" ] || { echo "run.sh: no program $program; try: make ns3, or EXAMPLES=DIRECTORY" >&2; exit 2; }

# `ip netns` stores the names of namespaces in /run/netns. With its own /run, this script sees and
# creates no names of the host.
mount -t tmpfs none /run
ip link set lo up
for pair in "peer veth0 veth1 10.0.1.2" "peer2 veth2 veth3 10.0.2.2"; do
    read -r space ours theirs address <<< "$pair"
    ip netns add "$space"
    ip link add "$ours" type veth peer name "$theirs" netns "$space"
    ip link set "$ours" up
    ip netns exec "$space" ip link set lo up
    ip netns exec "$space" ip link set "$theirs" up
    ip netns exec "$space" ip addr add "$address/24" dev "$theirs"
    # The host would answer for addresses of the simulated node, or send frames of its own.
    sysctl -qw "net.ipv6.conf.$ours.disable_ipv6=1" || true
done
case " $* " in
    *" --netmapMode=false "* | *" --netmapMode=0 "*)
        # The stock device does not complete checksums and segments, so veth must do that itself.
        for pair in "peer veth1" "peer2 veth3"; do
            read -r space theirs <<< "$pair"
            ip netns exec "$space" ethtool -K "$theirs" tx off gso off tso off > /dev/null
        done ;;
esac

# Receives UDP and TCP, as `iperf -s` does, and prints at the end how many bytes it received.
cat > /run/sink.py << 'PYTHON'
import signal, socket, sys, threading

def receive(sock, name):
    while data := sock.recv(1 << 16):
        totals[name] = totals.get(name, 0) + len(data)

def accept(listener):
    while True:
        threading.Thread(target=receive, args=(listener.accept()[0], "TCP"), daemon=True).start()

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
totals = {}
port = int(sys.argv[1])
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
udp.bind(("0.0.0.0", port))
tcp = socket.create_server(("0.0.0.0", port))
threading.Thread(target=receive, args=(udp, "UDP"), daemon=True).start()
threading.Thread(target=accept, args=(tcp,), daemon=True).start()
print("ready", flush=True)
signal.sigwait({signal.SIGTERM})
print("server received", " and ".join(f"{n} bytes of {name}" for name, n in totals.items()) or "nothing")
PYTHON

running=()
# Starts a program in the background, and waits for the first line that it prints.
start() {
    local ready
    exec {from}< <(exec "$@" 2>&1)
    running+=($!)
    read -r ready <&"$from"
}
finish() {
    [ ${#running[@]} = 0 ] || kill -TERM "${running[@]}" 2> /dev/null || true
    [ -z "${from:-}" ] || cat <&"$from"
}

case $name in
    onoff) if [ -n "${SOURCE:-}" ]; then
               read -r rate seconds bytes <<< "$SOURCE"
               # On the first CPU, with the softirqs of what it sends: it stands for another machine.
               start ip netns exec peer taskset --cpu-list "$(taskset --cpu-list --pid $$ | sed 's/.*: //; s/[-,].*//')" \
                   "$EXAMPLES/slipring-source" packet:veth1 10.0.1.11 "$rate" "$seconds" "$bytes"
           elif [ "${SINK:-}" = iperf ]; then
               udp=()
               [[ " $* " == *" --transportProt=Tcp "* ]] || udp=(--udp)
               start ip netns exec peer iperf --server "${udp[@]}" --port 8000
           else
               start ip netns exec peer python3 /run/sink.py 8000
           fi ;;
    ping)  start ip netns exec peer python3 /run/sink.py 9 ;;
    tc)    ip netns exec peer ip route add default via 10.0.1.1
           ip netns exec peer2 ip route add default via 10.0.2.1
           start ip netns exec peer2 iperf3 --server --forceflush ;;
esac
command=("$program")
if [ -n "${PRIORITY:-}" ]; then
    # A CPU without the source: a program at real-time priority takes all of its CPU's time.
    last=$(taskset --cpu-list --pid $$ | sed 's/.*[^0-9]//')
    [ "$(nproc)" -gt 1 ] || { echo "run.sh: PRIORITY needs a second CPU, because the example takes all of one; try it without" >&2; exit 2; }
    command=(chrt --fifo "$PRIORITY" taskset --cpu-list "$last" "$program")
fi
status=0
if [ "$name" = tc ]; then
    "${command[@]}" "$@" &
    example=$!
    trap 'kill -INT $example 2> /dev/null' INT TERM
    # The client tries again until the simulated router forwards.
    ip netns exec peer sh -c 'until iperf3 --client 10.0.2.2 --connect-timeout 1000 --time "$0" --parallel 4; do [ $((n += 1)) -lt 20 ] || exit 1; done' \
        "${TRAFFIC_SECONDS:-6}" | grep -E 'SUM|error' || status=$?
    wait $example || status=$?
else
    # If this script gets a signal, the example gets it too: the example ends and prints its
    # results.
    "${command[@]}" "$@" &
    example=$!
    trap 'kill -INT $example 2> /dev/null' INT TERM
    wait $example || { trap - INT TERM; wait $example || status=$?; }
fi
echo "veth1 received $(ip netns exec peer cat /sys/class/net/veth1/statistics/rx_bytes) bytes"
finish
exit $status
