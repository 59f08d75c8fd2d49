#!/usr/bin/env python3
"""Draws docs/link.svg from two real runs of the link emulator: picture.py [SLIPRING] [OUTPUT]

Frames of 1500 bytes arrive at 14 Mbit/s for 1.2 s and at 4 Mbit/s for 0.8 s, three times. They pass a link of 10 Mbit/s
and 20 ms, once behind a queue of 100 kB and once behind one of 25 kB. Each frame carries its number and the time when it
was sent, so that the output alone tells its delay and which frames are missing. Everything runs in virtual time with a
seed: the picture is the same on every machine.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

LENGTH = 1500
PERIOD_S, BUSY_S, PERIODS = 2.0, 1.2, 3
BUSY_BPS, QUIET_BPS = 14e6, 4e6
QUEUES = [("100kB", "#1f6f8b", "queue of 100 kB"), ("25kB", "#d1495b", "queue of 25 kB")]

MAGIC_NS = 0xA1B23C4D
FILE_HEADER = struct.Struct("<IHHiIII")
FRAME_HEADER = struct.Struct("<IIII")
PAYLOAD = struct.Struct(">QQ")
ETHERNET = bytes.fromhex("020000000002" "020000000001" "88b5")


def arrivals():
    """Returns the times in nanoseconds at which frames are sent."""
    time_s = 0.0
    while time_s < PERIOD_S * PERIODS:
        yield round(time_s * 1e9)
        busy = time_s % PERIOD_S < BUSY_S
        time_s += LENGTH * 8 / (BUSY_BPS if busy else QUIET_BPS)


def write_capture(path):
    """Writes the frames to a pcap file."""
    with open(path, "wb") as file:
        file.write(FILE_HEADER.pack(MAGIC_NS, 2, 4, 0, 0, 65535, 1))
        for number, ns in enumerate(arrivals()):
            frame = (ETHERNET + PAYLOAD.pack(number, ns)).ljust(LENGTH, b"\0")
            file.write(FRAME_HEADER.pack(ns // 10**9, ns % 10**9, LENGTH, LENGTH) + frame)


def read_delays(path):
    """Returns the number, the time of sending (s) and the delay (ms) of each frame in a pcap
    file."""
    data = pathlib.Path(path).read_bytes()
    at, found = FILE_HEADER.size, []
    while at < len(data):
        seconds, ns, length, _ = FRAME_HEADER.unpack_from(data, at)
        number, sent_ns = PAYLOAD.unpack_from(data, at + FRAME_HEADER.size + len(ETHERNET))
        found.append((number, sent_ns / 1e9, (seconds * 10**9 + ns - sent_ns) / 1e6))
        at += FRAME_HEADER.size + length
    return found


def run(slipring, queue):
    """Runs the emulator. Returns the frames that arrived, and the times (s) at which lost frames
    were sent."""
    with tempfile.TemporaryDirectory() as directory:
        source, output = (f"{directory}/{name}.pcap" for name in ("in", "out"))
        write_capture(source)
        command = [slipring, "emulate", "--virtual", source, output, "-B", "10Mbit", "-D", "20ms"]
        subprocess.run(command + ["-Q", queue, "--seed", "1"], check=True, stdout=subprocess.DEVNULL)
        passed = read_delays(output)
    numbers = {number for number, _, _ in passed}
    lost = [ns / 1e9 for number, ns in enumerate(arrivals()) if number not in numbers]
    return passed, lost


def draw(results):
    """Returns the picture as SVG."""
    width, height, left, right, top, bottom = 860, 380, 60, 16, 64, 78
    most_s, most_ms = PERIOD_S * PERIODS, 120
    x = lambda s: left + (width - left - right) * s / most_s
    y = lambda ms: height - bottom - (height - top - bottom) * ms / most_ms
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="24" font-size="16" font-weight="bold">One-way delay of every frame through a link of 10 Mbit/s and 20 ms</text>',
    ]
    for ms in range(0, most_ms + 1, 20):
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y(ms):.1f}" y2="{y(ms):.1f}" stroke="#e3e3e3"/>')
        parts.append(f'<text x="{left - 8}" y="{y(ms) + 4:.1f}" text-anchor="end">{ms}</text>')
    for second in range(int(most_s) + 1):
        parts.append(f'<text x="{x(second):.1f}" y="{height - bottom + 18}" text-anchor="middle">{second}</text>')
    parts.append(f'<text x="{left - 8}" y="{top - 10}" text-anchor="end">ms</text>')
    parts.append(f'<text x="{width - right}" y="{height - bottom + 34}" text-anchor="end">time of sending, seconds</text>')
    for row, ((passed, lost), (_, colour, name)) in enumerate(zip(results, QUEUES)):
        points = " ".join(dict.fromkeys(f"{x(s):.0f},{y(ms):.1f}" for _, s, ms in passed))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        base = height - 30 + row * 14
        marks = "".join(f"M{x(s):.1f} {base - 4}v8" for s in lost)
        parts.append(f'<path d="{marks}" stroke="{colour}" stroke-width="0.5"/>')
        parts.append(f'<text x="{left - 8}" y="{base + 4}" text-anchor="end" fill="{colour}">lost</text>')
        legend = f"{name}: {len(passed)} of {len(passed) + len(lost)} frames passed, {len(lost)} lost"
        parts.append(f'<text x="{left + row * 390}" y="44" fill="{colour}">{legend}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def main():
    slipring = sys.argv[1] if len(sys.argv) > 1 else "target/release/slipring"
    output = sys.argv[2] if len(sys.argv) > 2 else "docs/link.svg"
    pathlib.Path(output).write_text(draw([run(slipring, queue) for queue, _, _ in QUEUES]))


if __name__ == "__main__":
    main()
