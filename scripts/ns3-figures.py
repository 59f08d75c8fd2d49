#!/usr/bin/python3
"""Measures the ns-3 device beside ns-3's own, over veth, and draws the results.

usage: ns3-figures.py [--rounds N] [--seconds S] [--out DIR] [--draw-only]

Writes DIR/figures.csv (a row for each run), DIR/series.csv (samples over time) and DIR/figures.png. Runs of the two devices
alternate. Everything runs in namespaces that end with the run. Needs root or user namespaces, and an otherwise idle machine.
"""

import argparse
import csv
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEVICES = {"slipring": [], "FdNetDevice": ["--netmapMode=false"]}


def build():
    env = {**os.environ, "PROFILE": "release"}
    subprocess.run([ROOT / "scripts/ns3.sh", "build"], check=True, env=env)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
    return target / "ns3-release/examples"


class Bench:
    """Runs examples, and collects rows and samples."""

    def __init__(self, examples, seconds):
        self.env = {**os.environ, "EXAMPLES": str(examples), "SINK": "iperf", "TRAFFIC_SECONDS": str(seconds - 2)}
        self.seconds = seconds
        self.rows, self.series = [], []

    def run(self, name, *words, duration=None):
        command = [ROOT / "ns3/examples/run.sh", name, f"--duration={duration or self.seconds}", *words]
        done = subprocess.run(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
        return done.stdout

    def row(self, figure, variant, device, text, pattern, unit, factor=1.0):
        found = re.findall(pattern, text)
        if not found:
            sys.exit(f"{figure}, {variant}, {device}: no {pattern} in\n{text}")
        self.rows.append((figure, variant, device, float(found[-1]) * factor, unit))
        print(*self.rows[-1], flush=True)

    def samples(self, figure, variant, text):
        pattern = r"at \+?([\d.]+)s: .* backlog (\d+) .* in flight (\d+) "
        for at, backlog, in_flight in re.findall(pattern, text):
            self.series.append((figure, variant, float(at), int(backlog), int(in_flight)))

    def throughput(self, device, words):
        for transport in ["Udp", "Tcp"]:
            text = self.run("onoff", f"--transportProt={transport}", "--rate=2Gbps", *words)
            to_mbits = 8e-6 / (self.seconds - 0.2)
            self.row("throughput", transport, device, text, r"veth1 received (\d+) bytes", "Mbit/s", to_mbits)

    def rtt(self, device, words):
        for background in ["0bps", "100Mbps"]:
            text = self.run("ping", f"--background={background}", "--pingInterval=0.02", *words)
            self.row("rtt", background, device, text, r"min/median/p99/max = [\d.e-]+/([\d.e-]+)/", "ms")

    def rate(self, device, words):
        for mode, name in enumerate(["Write", "Send", "UDP socket"]):
            text = self.run("send", f"--mode={mode}", *words, duration=1)
            self.row("pps", name, device, text, r"throughput ([\d.e+]+) pps", "pps")
            self.row("cpu", name, device, text, r"cpu ([\d.e+]+) ns", "ns/packet")

    def queues(self):
        """Over a wire of 100 Mbit/s, which only our device sees."""
        for bql in ["false", "true"]:
            words = ["--wire=100Mbps", "--rate=200Mbps", f"--bql={bql}", "--interval=0.05"]
            self.samples("in flight", f"bql={bql}", self.run("onoff", *words))
            for qdisc in ["PfifoFast", "FqCoDel"]:
                words = ["--wire=100Mbps", f"--qdisc={qdisc}", f"--bql={bql}", "--interval=0.05"]
                text = self.run("tc", *words)
                self.samples("backlog", f"{qdisc}, bql={bql}", text)
                self.row("rtt under load", f"{qdisc}, bql={bql}", "slipring", text, r"max = [\d.e-]+/([\d.e-]+)/", "ms")


def measure(out, rounds, seconds):
    bench = Bench(build(), seconds)
    for _ in range(rounds):
        for device, words in DEVICES.items():
            bench.throughput(device, words)
            bench.rtt(device, words)
            bench.rate(device, words)
        text = bench.run("send", "--mode=0", "--deviceName=only{1", duration=1)
        bench.row("pps", "Write", "slipring, pipe", text, r"throughput ([\d.e+]+) pps", "pps")
    bench.queues()
    out.mkdir(parents=True, exist_ok=True)
    for name, head, rows in [
        ("figures.csv", ["figure", "variant", "device", "value", "unit"], bench.rows),
        ("series.csv", ["figure", "variant", "s", "backlog packets", "in flight bytes"], bench.series),
    ]:
        with open(out / name, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *rows])


def bars(axes, rows, figure):
    """Draws the medians, with the extremes of all rounds."""
    rows = [row for row in rows if row["figure"] == figure]
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    devices = list(dict.fromkeys(row["device"] for row in rows))
    for number, device in enumerate(devices):
        values = [sorted(float(r["value"]) for r in rows if (r["variant"], r["device"]) == (v, device)) for v in variants]
        at = [place + 0.8 * number / len(devices) for place, some in enumerate(values) if some]
        values = [some for some in values if some]
        middle = [some[len(some) // 2] for some in values]
        ends = [[m - some[0] for m, some in zip(middle, values)], [some[-1] - m for m, some in zip(middle, values)]]
        axes.bar(at, middle, 0.8 / len(devices), yerr=ends, label=device, capsize=3)
    axes.set_xticks([place + 0.4 - 0.4 / len(devices) for place in range(len(variants))], variants)
    axes.set_ylabel(rows[0]["unit"] if rows else "")
    axes.set_title(figure)
    axes.legend(fontsize=7)


def lines(axes, rows, figure, column):
    rows = [row for row in rows if row["figure"] == figure]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        of_it = [row for row in rows if row["variant"] == variant]
        axes.plot([float(row["s"]) for row in of_it], [float(row[column]) for row in of_it], label=variant, linewidth=1)
    axes.set_xlabel("s")
    axes.set_title(f"{column}, wire of 100 Mbit/s")
    axes.legend(fontsize=7)


def draw(out):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = list(csv.DictReader(open(out / "figures.csv")))
    series = list(csv.DictReader(open(out / "series.csv")))
    figure, axes = pyplot.subplots(2, 3, figsize=(14, 7.5), layout="constrained")
    for axis, name in zip(axes.flat, ["throughput", "rtt", "pps", "cpu"]):
        bars(axis, rows, name)
    lines(axes[1][1], series, "in flight", "in flight bytes")
    lines(axes[1][2], series, "backlog", "backlog packets")
    figure.savefig(out / "figures.png", dpi=110)


def main():
    arguments = argparse.ArgumentParser(description="Measures the ns-3 device beside ns-3's own.")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=int, default=8)
    arguments.add_argument("--out", type=Path, default=ROOT / "docs/ns3")
    arguments.add_argument("--draw-only", action="store_true", help="draw the CSV files that are there")
    words = arguments.parse_args()
    if not words.draw_only:
        measure(words.out, words.rounds, words.seconds)
    draw(words.out)


if __name__ == "__main__":
    main()
