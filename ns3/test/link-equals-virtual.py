#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compares emulated links in ns-3 with `slipring emulate --virtual`, to the nanosecond.

usage: link-equals-virtual.py SLIPRING SLIPRING-LINK-REPLAY [CASES]

Each case has random links and two random captures, made from its number. Both programs get the
same file, seed and captures. Each frame's fate, release time, exit and bytes must be equal, and
each loss's time, cause and link.
"""

import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PARTS = {
    "rate": ["20Mbit", "ether(50Mbit)", "markov(10Mbit:5ms,80Mbit:9ms)", "ramp(5Mbit,50Mbit,90ms)"],
    "delay": ["5ms", "uniform(1ms,9ms)", "normal(9ms,1ms,half_life=3ms)", "pareto(1ms,3,max=30ms)"],
    "loss": ["2%", "ge(5%,30%)", "nth(7)", "ber(1e-6)"],
    "queue": ["droptail(packets=9)", "codel(1ms,10ms)", "red(2kB,9kB)", "drophead(packets=5)"],
    "hold": ["const(5%,4ms)"],
    "police": ["bucket(15Mbit,4kB)"],
    "duplicate": ["const(5%)", "const(10%,after=3ms)"],
    "corrupt": ["ber(1e-5)"],
    "mangle": ["set(20,0badcafe,10%)"],
    "order": ["free", "drop"],
}
PCAP_NS = 0xA1B23C4D


def links(rng):
    """Returns a file with random links in both directions; some change on the way."""
    text = ""
    for name in ["up", "down"]:
        text += f"[link.{name}]\n"
        for part, choices in PARTS.items():
            choice = rng.choice(choices + [None])
            text += f'{part} = "{choice}"\n' if choice else ""
    if rng.random() < 0.5:
        text += '[[at]]\nt = "50ms"\nset = { "link.up.delay" = "2ms" }\n'
    return text


def frames(rng):
    """Returns random frames: time in ns, bytes."""
    ns, made = rng.randrange(1_000_000), []
    for _ in range(300):
        if rng.random() < 0.8:
            ns += rng.randrange(300_000)
        made.append((ns, rng.randbytes(rng.randrange(60, 1515))))
    return made


def write_pcap(path, captured):
    start = 1_600_000_000
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", PCAP_NS, 2, 4, 0, 0, 65535, 1))
        for ns, data in captured:
            seconds, fraction = divmod(ns, 10**9)
            file.write(struct.pack("<IIII", start + seconds, fraction, len(data), len(data)))
            file.write(data)


def options(data):
    """Yields code and value of each option of a pcapng block."""
    while len(data) >= 4:
        code, length = struct.unpack_from("<HH", data)
        if code == 0:
            return
        yield code, data[4 : 4 + length]
        data = data[4 + (length + 3) // 4 * 4 :]


def read_log(path):
    """Returns the outcomes in a packet log: interfaces are `PORT in` and `PORT out`."""
    data, interfaces, events, first = path.read_bytes(), [], [], None
    while data:
        kind, length = struct.unpack_from("<II", data)
        body, data = data[8 : length - 4], data[length:]
        if kind == 1:
            interfaces.append(next(v.decode() for c, v in options(body[8:]) if c == 2))
        if kind != 6:
            continue
        number, high, low, captured, length = struct.unpack_from("<IIIII", body)
        ns = high << 32 | low
        first = ns if first is None else first
        port, way = interfaces[number].rsplit(" ", 1)
        frame = body[20 : 20 + captured]
        comments = [v.decode() for c, v in options(body[20 + (captured + 3) // 4 * 4 :]) if c == 1]
        if way == "out":
            events.append(("sent", ns - first, port, frame.hex()))
        elif comments:
            cause, _, link = comments[0].rstrip(")").partition(" (link ")
            events.append(("lost", ns - first, cause, link or "-", length))
    return sorted(events)


def read_lines(text):
    """Returns the outcomes that slipring-link-replay has printed."""
    events = []
    for line in text.splitlines():
        kind, ns, *rest = line.split()
        if kind == "lost":
            rest[2] = int(rest[2])
        events.append((kind, int(ns), *rest))
    return sorted(events)


def compare(slipring, replay, case, folder):
    rng = random.Random(case)
    file, log = folder / "link.toml", folder / "log.pcapng"
    file.write_text(links(rng))
    for name in ["left", "right"]:
        write_pcap(folder / f"{name}.pcap", frames(rng))
    left, right = folder / "left.pcap", folder / "right.pcap"
    outputs = [left, folder / "out.pcapng", right, folder / "out2.pcapng"]
    options = ["--config", file, "--seed", str(case), "--log", log, "--virtual", *outputs]
    done = subprocess.run([slipring, "emulate", *options], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"case {case}: slipring emulate: {done.stderr}")
    words = [f"--links={file}", f"--seed={case}", f"--in={left}", f"--in2={right}"]
    ours = subprocess.run([replay, *words], check=True, capture_output=True, text=True).stdout
    virtual, simulated = read_log(log), read_lines(ours)
    if virtual != simulated:
        wrong = sorted(set(virtual) ^ set(simulated), key=lambda event: event[1])
        print(f"case {case}: {len(wrong)} outcomes differ, first {wrong[:2]}\n{file.read_text()}")
        return False
    counts[0] += sum(event[0] == "sent" for event in virtual)
    counts[1] += sum(event[0] == "lost" for event in virtual)
    return True


counts = [0, 0]


def main():
    slipring, replay = sys.argv[1:3]
    cases = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    with tempfile.TemporaryDirectory() as folder:
        equal = [compare(slipring, replay, case, Path(folder)) for case in range(1, cases + 1)]
    print(f"{sum(equal)} of {cases} cases equal; {counts[0]} frames sent, {counts[1]} lost")
    if counts[0] == 0 or counts[1] == 0:
        sys.exit("nothing was compared")
    sys.exit(not all(equal))


main()
