#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures the device beside ns-3's stock FdNetDevice: figures.py RUN.SH PROGRAMS FIGURES.CSV [GROUP...]

Runs the examples over veth, the two devices in turn, each run 8 s at most; 5 minutes in all, or more on a busy machine.
Writes one line for each number. figures_page.py draws them. Nothing else should run meanwhile: the load average is noted
before and after. With groups (udp, tcp, rtt, idle, receiving, queues, writing), measures only those, and keeps the other
lines of the file.
"""

import csv
import datetime
import itertools
import math
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROUNDS = 3
OURS, STOCK, NONE = "SlipringNetDevice", "FdNetDevice", "no device"
DEVICES = {OURS: "", STOCK: " --netmapMode=false"}
PAYLOAD = 1400
# What the source offers, up to more than the capacity. The last rate follows the capacity that these show.
OFFERED_KPPS = [50, 100, 150, 200, 300, 500]
# A run in which the machine has stopped the simulator for longer at once is measured again. If all tries were stopped, the
# one with the shortest stop counts.
MOST_STOP_MS, TRIES = 1, 10
QUEUES = [(qdisc, bql) for qdisc in ("PfifoFast", "FqCoDel") for bql in (False, True)]


class Runs:
    """Runs examples, and keeps each number that they print: measurement, subject, round, metric, value."""

    def __init__(self, script, programs):
        self.script, self.rows = script, []
        os.environ["EXAMPLES"] = programs

    def run(self, words, **environment):
        """Returns the output of an example."""
        done = subprocess.run([self.script, *words.split()], env={**os.environ, **environment}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{words}: status {done.returncode}\n{done.stdout}")
        return done.stdout

    def note(self, measurement, subject, number, metric, value):
        self.rows.append((measurement, subject, number, metric, f"{float(value):g}"))

    def values(self, measurement, subject, metric):
        """Returns what was noted, of all rounds."""
        return [float(value) for *row, _, name, value in self.rows if (*row, name) == (measurement, subject, metric)]


def number(pattern, text):
    """Returns the number after a pattern, or ends the program."""
    found = re.search(pattern + r"\s*([\d.]+(?:e[+-]?\d+)?)", text)
    if not found:
        sys.exit(f"no {pattern} in:\n{text}")
    return float(found.group(1))


def measure_tcp(runs):
    """A node sends at most 500 Mbit/s to `iperf --server` of the host's kernel."""
    for turn in range(ROUNDS):
        for device, words in DEVICES.items():
            text = runs.run(f"onoff --transportProt=Tcp --rate=500Mbps --duration=3 --ping=false{words}", SINK="iperf")
            # The node sends from 0.2 s on. The clock counts: a simulator that is late takes longer than 3 s.
            seconds = number(r"cpu [\d.e+-]+ s in", text) - 0.2
            runs.note("TCP send", device, turn, "Mbit/s", number(r"veth1 received", text) * 8 / seconds / 1e6)


def measure_udp(runs):
    """A node sends to the host's kernel, more than a simulator keeps up with; what arrives counts. A simulator that keeps
    up waits for the clock with the CPU busy, so its CPU time is the clock's. The first ping finds the host's hardware address."""
    length = 0.5
    words = f"onoff --transportProt=Udp --rate=10Gbps --packetSize={PAYLOAD} --duration={length}"
    for turn in range(ROUNDS):
        for device, more in {**DEVICES, NONE: " --discard=true"}.items():
            text = runs.run(words + more)
            seconds, cpu = number(r"cpu [\d.e+-]+ s in", text), number(r"\ncpu", text)
            if seconds < 1.2 * length:
                sys.exit(f"the simulator keeps up with 10 Gbit/s, which thus is too slow a rate, with {device}:\n{text}")
            packets = number(r"discarded", text) if device == NONE else number(r"veth1 received", text) / (PAYLOAD + 42)
            runs.note("UDP send", device, turn, "Mbit/s", packets * (PAYLOAD + 42) * 8 / (seconds - 0.2) / 1e6)
            runs.note("UDP send", device, turn, "CPU µs per packet", cpu * 1e6 / packets)


def measure_writing(runs):
    subjects = {f"{OURS}, veth": "", f"{STOCK}, veth": DEVICES[STOCK],
                f"{OURS}, pipe": " --deviceName=figures{1 --drain=figures}1"}
    for turn in range(ROUNDS):
        for subject, words in subjects.items():
            text = runs.run(f"send --mode=0 --size=64 --duration=2{words}")
            runs.note("Write 64 B", subject, turn, "Mpps", number(r"throughput", text) / 1e6)


def measure_rtt(runs):
    for turn in range(ROUNDS):
        for device, words in DEVICES.items():
            text = runs.run(f"ping --duration=4 --background=0bps --pingInterval=0.02{words}")
            least, median, p99, _ = re.search(r"rtt min/median/p99/max = ([\d.e-]+)/([\d.e-]+)/([\d.e-]+)/([\d.e-]+) ms", text).groups()
            for metric, value in (("min µs", least), ("median µs", median), ("p99 µs", p99)):
                runs.note("RTT", device, turn, metric, float(value) * 1000)
            runs.note("RTT", device, turn, "median without lag µs", number(r"lag min/median/p99/max = [\d.e-]+/", text) * 1000)
            runs.note("50 pings/s", device, turn, "due", number(r"ping [\d.]+:", text))
            runs.note("50 pings/s", device, turn, "answered", number(r"\d+ due,", text))
            runs.note("50 pings/s", device, turn, "CPU %", cpu_percent(text))


def measure_idle(runs):
    for turn in range(ROUNDS):
        for device, words in DEVICES.items():
            text = runs.run(f"ping --duration=8 --interval=8 --background=0bps --ping=false{words}")
            runs.note("idle", device, turn, "CPU %", cpu_percent(text))


def cpu_percent(text):
    return 100 * number(r"cpu", text) / number(r"cpu [\d.e+-]+ s in", text)


def measure_receiving(runs):
    for turn, kpps, device in itertools.product(range(ROUNDS), OFFERED_KPPS, DEVICES):
        measure_rate(runs, turn, kpps, device)
    # The highest rate is above 3 times the capacity, by enough for one that is higher at that rate.
    capacity = max(statistics.median(runs.values(f"receive at {kpps} kpps", OURS, "delivered kpps")) for kpps in OFFERED_KPPS)
    highest = math.ceil(3.15 * capacity / 50) * 50
    for turn, device in itertools.product(range(ROUNDS), DEVICES):
        measure_rate(runs, turn, highest, device)
        if device == OURS and subprocess.run(["chrt", "--fifo", "1", "true"], stderr=subprocess.DEVNULL).returncode == 0:
            measure_rate(runs, turn, highest, device, "1")


def least_stopped_run(runs, kpps, device, priority):
    """Returns the output of the run that counts, its longest stop in ms, and the number of tries."""
    words = f"onoff --serverMode=true --stamped=true --server=10.0.1.11 --client=10.0.1.2 --duration=2 --packetSize={PAYLOAD}"
    best = None
    # The stock device has a thread of its own for each packet, which stops the simulator, too.
    for tries in range(1, 2 if device == STOCK else TRIES + 1):
        text = runs.run(words + DEVICES[device], SOURCE=f"{kpps * 1000} 1 {PAYLOAD + 42}", PRIORITY=priority)
        stop = number(r"the longest stop", text)
        best = min(best or (stop, text), (stop, text))
        if stop <= MOST_STOP_MS:
            break
    return best[1], best[0], tries


def measure_rate(runs, turn, kpps, device, priority=""):
    """Notes what a node receives from a program that sends for a second."""
    text, stop, tries = least_stopped_run(runs, kpps, device, priority)
    seconds = number(r"source sent \d+ frames in", text)
    offered, delivered = number(r"source sent", text), number(r"\nreceived", text) / PAYLOAD
    values = {"offered kpps": offered / seconds / 1000, "delivered kpps": delivered / seconds / 1000,
              "offered frames": offered, "delivered frames": delivered}
    values["oldest ms"] = number(r"the oldest packet after", text)
    values["oldest while running ms"] = number(r"while the simulator ran after", text)
    values["longest queue"] = number(r"the longest queue", text)
    values["longest pause ms"] = number(r"the longest pause", text)
    values["longest stop ms"], values["tries"] = stop, tries
    values["left out frames"] = number(r"the longest stop [\d.e+-]+ ms,", text)
    if device == OURS:
        values["ring slots"] = number(r"\bslots=", text)
        values["dropped frames"] = sum(float(n) for n in re.findall(r"(?:port_drops|drop_rx_\w+)=(\d+)", text))
    subject = f"{device}, real-time priority" if priority else device
    for metric, value in values.items():
        runs.note(f"receive at {kpps} kpps", subject, turn, metric, value)


def queue_name(qdisc, bql):
    return f"{qdisc}, {'BQL' if bql else 'no BQL'}"


def measure_queues(runs):
    sample = r"at \+?([\d.]+)s?: .*backlog \d+ \(max (\d+)\) packets, in flight \d+ \(max (\d+)\) bytes"
    for qdisc, bql in QUEUES:
        text = runs.run(f"onoff --transportProt=Udp --rate=150Mbps --wire=100Mbps --duration=4 --interval=0.2 "
                        f"--qdisc={qdisc} --bql={str(bql).lower()}")
        for time, backlog, inflight in re.findall(sample, text):
            runs.note("100 Mbit/s", queue_name(qdisc, bql), 0, f"backlog at {float(time):.1f} s", backlog)
            runs.note("100 Mbit/s", queue_name(qdisc, bql), 0, f"in flight at {float(time):.1f} s", inflight)


def machine():
    """Returns the machine, in words."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return f"{model.group(1).strip() if model else platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def load():
    return Path("/proc/loadavg").read_text().split()[0]


# What is measured, by group: the function, and the measurements in the file.
GROUPS = {
    "udp": (measure_udp, r"UDP send"),
    "tcp": (measure_tcp, r"TCP send"),
    "rtt": (measure_rtt, r"RTT|50 pings/s"),
    "idle": (measure_idle, r"idle"),
    "receiving": (measure_receiving, r"receive at .*"),
    "queues": (measure_queues, r"100 Mbit/s"),
    "writing": (measure_writing, r"Write 64 B"),
}


def kept_rows(path, groups):
    """Returns the rows of the file that are not measured again."""
    if set(groups) == set(GROUPS):
        return []
    again = "|".join(["run"] + [GROUPS[group][1] for group in groups])
    with open(path, newline="") as file:
        return [row for row in list(csv.reader(file))[1:] if not re.fullmatch(again, row[0])]


def main():
    groups = sys.argv[4:] or list(GROUPS)
    if len(sys.argv) < 4 or not set(groups) <= set(GROUPS):
        sys.exit(__doc__)
    output = Path(sys.argv[3])
    kept = kept_rows(output, groups)
    runs = Runs(str(Path(sys.argv[1]).resolve()), str(Path(sys.argv[2]).resolve()))
    words = {"date": datetime.date.today().isoformat(), "machine": machine(), "load before": load()}
    for group in groups:
        GROUPS[group][0](runs)
        print(f"{group}: load {load()}", flush=True)
    words["load after"] = load()
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("measurement", "subject", "round", "metric", "value"))
        table.writerows(("run", "", 0, metric, value) for metric, value in words.items())
        table.writerows(kept + runs.rows)


main()
