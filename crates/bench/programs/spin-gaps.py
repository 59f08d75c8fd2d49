#!/usr/bin/env python3
"""Measures how evenly `slipring emulate --spin` sends, on an idle machine and beside busy tasks. For root.

    crates/bench/programs/spin-gaps.py [--seconds N] [--busy] [--cpu N] [--slipring PATH] [FLAG...]

    namespace 1           namespace 2                       namespace 3
    sender (1 kpps) veth -- veth  emulate -D 5ms --spin  veth -- veth
              ^ stamp 1                                          ^ stamp 2

The kernel stamps each frame before it enters the link and after it leaves it, so pauses of the sender and of
the reader of the stamps do not count. The sender is a real-time thread on the first CPU, and
sleeps between frames. The emulator runs on the CPU of --cpu (default: the last one). --busy puts a task that never
sleeps on each CPU. The output has the steal time of a virtual machine, because it is part of the gaps.
The emulator gets a frame only after the kernel has moved it over the first veth pair. The time that this
takes is measured before, without the emulator. FLAGs are flags of the emulator.
"""
import argparse, ctypes, json, os, signal, socket, struct, subprocess, time

CLONE_NEWNET = 0x40000000
SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
ETHERTYPE = b"\x88\xb5"  # for experiments
PERIOD_S, DELAY_NS = 0.001, 5_000_000
libc = ctypes.CDLL(None, use_errno=True)


def sh(command):
    subprocess.run(command, shell=True, check=True)


def enter(namespace):
    with open(f"/run/netns/{namespace}") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def stamps_of(namespace, interface):
    """Returns a socket that receives, with time stamps, the frames on an interface of a
    namespace."""
    with open("/proc/self/ns/net") as home:
        enter(namespace)
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        libc.setns(home.fileno(), CLONE_NEWNET)
    tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
    tap.bind((interface, 0))
    tap.setblocking(False)
    return tap


def read(tap):
    """Returns the time stamps in ns by the numbers of the frames."""
    stamps = {}
    while True:
        try:
            data, control, _, _ = tap.recvmsg(2048, 128)
        except BlockingIOError:
            return stamps
        for _, kind, value in control:
            if kind == SO_TIMESTAMPNS and data[12:14] == ETHERTYPE:
                seconds, ns = struct.unpack("qq", value)
                stamps[struct.unpack("<Q", data[14:22])[0]] = seconds * 10**9 + ns


def send(namespace, interface, seconds):
    enter(namespace)
    os.sched_setaffinity(0, {0})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    except OSError:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    libc.prctl(29, 1, 0, 0, 0)  # timer slack: 1 ns
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    out.bind((interface, 0))
    head = b"\xff" * 6 + b"\x02\0\0\0\0\1" + ETHERTYPE
    due = time.monotonic()
    end, number = due + seconds, 0
    while due < end:
        out.send(head + struct.pack("<Q", number) + bytes(38))
        number, due = number + 1, due + PERIOD_S
        time.sleep(max(0.0, due - time.monotonic()))


def steal_ms():
    with open("/proc/stat") as stat:
        return int(stat.readline().split()[8]) * 1000 // os.sysconf("SC_CLK_TCK")


def pass_frames(namespace, interface, seconds):
    """Sends from a process of its own until that process ends."""
    sender = os.fork()
    if sender == 0:
        send(namespace, interface, seconds)
        os._exit(0)
    os.waitpid(sender, 0)
    time.sleep(0.1)  # longer than the delay


def median_hop_ns(namespaces, interfaces):
    taps = [stamps_of(*end) for end in zip(namespaces, interfaces)]
    pass_frames(namespaces[0], interfaces[0], 2)
    entered, came = map(read, taps)
    hops = sorted(came[i] - entered[i] for i in entered.keys() & came.keys())
    return hops[len(hops) // 2]


def told(entered, left, own, steal, hop_ns):
    both = sorted(entered.keys() & left.keys())
    late = sorted(left[i] - entered[i] - DELAY_NS for i in both)
    gaps = lambda at: [at[b] - at[a] for a, b in zip(both, both[1:])]
    before, after = gaps(entered), gaps(left)
    added = sorted(b - a for a, b in zip(before, after))
    share = lambda values, part: values[min(len(values) - 1, int(len(values) * part))]
    over = lambda limit: sum(gap > limit for gap in added)
    print(f"frames: {len(entered)} sent, {len(left)} received; steal: {steal} ms")
    print(f"largest gap: {max(after) / 1e6:.3f} ms at the receiver, {max(before) / 1e6:.3f} ms where frames "
          f"enter; added by the emulator: {added[-1] / 1e6:.3f} ms, more than 1 ms {over(10**6)} times, "
          f"more than 10 ms {over(10**7)} times")
    print("late, by the receiver: median {:.2f} us, p99 {:.1f} us, p99.9 {:.1f} us, most {:.3f} ms".format(
        share(late, 0.5) / 1e3, share(late, 0.99) / 1e3, share(late, 0.999) / 1e3, late[-1] / 1e6))
    print("late, by the program: median {p50:.2f} us, p99 {p99:.1f} us, p99.9 {p999:.1f} us, most {max:.0f} us"
          .format(**{key: own[key] / 1e3 for key in ("p50", "p99", "p999", "max")}))
    differ = share(late, 0.5) - own["p50"]
    print(f"medians differ by {differ / 1e3:.2f} us, of which the veth pair before the program takes "
          f"{hop_ns / 1e3:.2f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--cpu", type=int, default=os.cpu_count() - 1)
    parser.add_argument("--slipring", default="target/release/slipring")
    options, flags = parser.parse_known_args()
    names = [f"spin{os.getpid()}-{i}" for i in range(3)]
    children = []
    try:
        for name in names:
            sh(f"ip netns add {name}")
        first, second, third = names
        sh(f"ip link add in0 netns {first} type veth peer name in1 netns {second}")
        sh(f"ip link add out0 netns {second} type veth peer name out1 netns {third}")
        for name, link in ((first, "in0"), (second, "in1"), (second, "out0"), (third, "out1")):
            sh(f"ip netns exec {name} sysctl -qw net.ipv6.conf.{link}.disable_ipv6=1")
            sh(f"ip -n {name} link set {link} up")
        hop_ns = median_hop_ns((first, second), ("in0", "in1"))
        entered, left = stamps_of(first, "in0"), stamps_of(third, "out1")
        emulate = ["ip", "netns", "exec", second, options.slipring, "emulate", "-i", "netmap:in1",
                   "-i", "netmap:out0", "-D", "5ms", "-T", "0", "--json=lines", "--spin", "-C", str(options.cpu)]
        emulator = subprocess.Popen(emulate + flags, stdout=subprocess.PIPE)
        children.append(emulator)
        emulator.stdout.readline()  # it has begun
        if options.busy:
            for cpu in range(os.cpu_count()):
                busy = ["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"]
                children.append(subprocess.Popen(busy))
        steal = steal_ms()
        pass_frames(first, "in0", options.seconds)
        steal = steal_ms() - steal
        emulator.send_signal(signal.SIGINT)
        report = json.loads(emulator.communicate()[0].splitlines()[-1])
        told(read(entered), read(left), report["links"][0]["delay_error_ns"], steal, hop_ns)
    finally:
        for child in children:
            child.kill()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


main()
