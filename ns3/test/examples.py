#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Runs the four examples over veth, with our device and with the stock one, and reads what they print.

usage: examples.py RUN.SH DIRECTORY-OF-PROGRAMS
"""

import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

# Words of each run, and what its output must match. A number in brackets must not be 0.
RUNS = [
    ("ping --duration=3", r"reply 1 from 10\.0\.1\.2: [\d.]+ ms", r"ping .*: \d+ due, (\d+) answered"),
    ("ping --duration=3 --netmapMode=false", r"ping .*, (\d+) answered"),
    ("onoff --duration=3 --transportProt=Udp --rate=50Mbps", r"server received (\d+) bytes of UDP", r", (\d+) answered"),
    ("onoff --duration=3 --transportProt=Tcp --rate=50Mbps --wire=20Mbps --bql=true", r"server received (\d+) bytes of TCP", r"in flight \d+ \(max (\d+)\) bytes", r"limit_stops=(\d+)"),
    ("onoff --duration=3 --transportProt=Tcp --rate=50Mbps --netmapMode=false", r"server received (\d+) bytes of TCP"),
    ("onoff --duration=1 --transportProt=Udp --rate=10Mbps --discard=true", r"discarded (\d+) packets"),
    ("send --mode=0", r"packets sent (\d+)", r"period (\d+)[.\d]* ms", r"failures \d+", r"throughput (\d+)[.e+\d]* pps"),
    ("send --mode=1", r"packets sent (\d+)"),
    ("send --mode=2", r"packets sent (\d+)"),
    ("send --mode=0 --netmapMode=false", r"packets sent (\d+)"),
    ("tc --duration=8 --wire=20Mbps --bql=true --qdisc=FqCoDel", r"backlog \d+ \(max (\d+)\) packets", r"\[SUM\].*receiver"),
    ("tc --duration=8 --netmapMode=false", r"received (\d+) frames"),
]
LAG = r"lag of the simulator"
# With byte queue limits, the tx ring holds two frames of the MTU at most, however late the simulator is.
BQL_BYTES = 2 * 1514


def run(script, words):
    """Returns status and output of an example."""
    env = {**os.environ, "TRAFFIC_SECONDS": "3"}
    done = subprocess.run([script, *words.split()], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def missing(text, patterns):
    """Returns the patterns that `text` does not match with a number other than 0."""
    def is_found(pattern):
        found = re.findall(pattern, text)
        return any(match.strip("0") != "" for match in found) if "(" in pattern and found else bool(found)
    return [pattern for pattern in patterns if not is_found(pattern)]


def above_limit(words, text):
    """Returns the samples of bytes in flight that byte queue limits should have prevented."""
    samples = re.findall(r"in flight \d+ \(max \d+\) bytes", text) if "--bql=true" in words else []
    return [f"bytes within {BQL_BYTES}: {s}" for s in samples if int(s.split()[4].strip(")")) > BQL_BYTES]


def descendants(pid):
    """Yields the processes that a process has started, and those that these have."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield int(child)
            yield from descendants(int(child))


def example_below(pid):
    """Returns the process of an example, or None if it is not there yet."""
    for child in descendants(pid):
        try:
            if Path(f"/proc/{child}/comm").read_text().startswith("fd-netmap-emu"):
                return child
        except FileNotFoundError:
            pass
    return None


def packets(path):
    """Returns how many whole packets a capture has; None if it ends within one."""
    data, count = path.read_bytes()[24:], 0
    while data:
        if len(data) < 16 or len(data) < 16 + struct.unpack_from("<I", data, 8)[0]:
            return None
        data, count = data[16 + struct.unpack_from("<I", data, 8)[0] :], count + 1
    return count


# Examples that a signal ends: the words, and the start of a line after which the signal is sent. The second one is late:
# it sends more than the simulator keeps up with.
ENDLESS = [("ping --duration=600 --pcap=true", "reply 3 "),
           ("onoff --transportProt=Udp --rate=10Gbps --duration=600 --interval=0.1", "at +")]


def interrupted(script, words, start):
    """Sends SIGINT to an example with ten minutes left. Returns what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        command = [script, *words.split()]
        child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in child.stdout:
            if line.startswith(start):
                break
        example = example_below(child.pid)
        if example is None:
            child.kill()
            return "the example has ended by itself"
        os.kill(example, signal.SIGINT)
        rest = child.stdout.read()
        status = child.wait()
        if status != 0 or "interrupted at" not in rest or " answered" not in rest:
            return f"status {status} after SIGINT: {rest}"
        captured = "--pcap" not in words or packets(Path(folder) / "fd-netmap-emu-veth0.pcap")
        return None if captured else f"the capture has {captured} packets"


def main():
    script, os.environ["EXAMPLES"] = (str(Path(word).resolve()) for word in sys.argv[1:3])
    failures = []
    for words, *patterns in RUNS:
        status, text = run(script, words)
        wrong = missing(text, patterns + [LAG]) + above_limit(words, text)
        print(f"{'ok' if status == 0 and not wrong else 'FAILED'}: {words}", flush=True)
        if status != 0 or wrong:
            failures.append(f"{words}: status {status}, no {wrong} in:\n{text}")
    for words, start in ENDLESS:
        wrong = interrupted(script, words, start)
        print(f"{'FAILED' if wrong else 'ok'}: SIGINT, {words}", flush=True)
        failures += [wrong] if wrong else []
    print(*failures, sep="\n")
    sys.exit(bool(failures))


main()
