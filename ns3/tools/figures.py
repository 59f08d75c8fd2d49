#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measures the device beside ns-3's stock FdNetDevice, and draws figures: figures.py RUN.SH PROGRAMS OUTPUT

Runs the examples over veth, the two devices in turn, each run 5 s at most. Prints a table; writes OUTPUT/figures.csv (one
line for each number) and OUTPUT/*.svg. Nothing else should run meanwhile: the load average is printed before and after.
"""

import csv
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROUNDS = 3
OURS, STOCK = "SlipringNetDevice", "FdNetDevice"
COLOURS = {OURS: "#1f6f8b", STOCK: "#d1495b"}
DEVICES = {OURS: "", STOCK: " --netmapMode=false"}
PAYLOAD = 1400
OFFERED_KPPS = [50, 100, 150, 200, 300, 450, 600]
QUEUES = [(qdisc, bql) for qdisc in ("PfifoFast", "FqCoDel") for bql in (False, True)]
QUEUE_COLOURS = ["#d1495b", "#1f6f8b", "#e9a23b", "#3a8f5c"]


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
        self.rows.append((measurement, subject, number, metric, float(value)))

    def values(self, measurement, subject, metric):
        return [row[4] for row in self.rows if (row[0], row[1], row[3]) == (measurement, subject, metric)]

    def median(self, measurement, subject, metric):
        return statistics.median(self.values(measurement, subject, metric))


def number(pattern, text):
    """Returns the number after a pattern, or ends the program."""
    found = re.search(pattern + r"\s*([\d.]+(?:e[+-]?\d+)?)", text)
    if not found:
        sys.exit(f"no {pattern} in:\n{text}")
    return float(found.group(1))


def measure_sending(runs):
    for turn in range(ROUNDS):
        for device, words in DEVICES.items():
            text = runs.run(f"send --mode=2 --size={PAYLOAD + 42} --duration=2{words}")
            runs.note("UDP send", device, turn, "Mbit/s", number(r"throughput", text) * PAYLOAD * 8 / 1e6)
            runs.note("UDP send", device, turn, "CPU ns/packet", number(r"\ncpu", text))


def measure_writing(runs):
    subjects = {f"{OURS}, veth": "", f"{STOCK}, veth": DEVICES[STOCK],
                f"{OURS}, pipe": " --deviceName=figures{1 --drain=figures}1"}
    for turn in range(ROUNDS):
        for subject, words in subjects.items():
            text = runs.run(f"send --mode=0 --size=64 --duration=2{words}")
            runs.note("Write 64 B", subject, turn, "Mpps", number(r"throughput", text) / 1e6)
    return list(subjects)


def measure_rtt(runs):
    for turn in range(ROUNDS):
        for device, words in DEVICES.items():
            text = runs.run(f"ping --duration=4 --background=0bps --pingInterval=0.02{words}")
            least, median, p99, _ = re.search(r"max = ([\d.e-]+)/([\d.e-]+)/([\d.e-]+)/([\d.e-]+) ms", text).groups()
            for metric, value in (("min µs", least), ("median µs", median), ("p99 µs", p99)):
                runs.note("RTT", device, turn, metric, float(value) * 1000)
            runs.note("50 pings/s", device, turn, "CPU %", cpu_percent(text))


def measure_idle(runs):
    for turn in range(ROUNDS):
        for device, words in DEVICES.items():
            text = runs.run(f"ping --duration=4 --background=0bps --ping=false{words}")
            runs.note("idle", device, turn, "CPU %", cpu_percent(text))


def cpu_percent(text):
    return 100 * number(r"cpu", text) / number(r"cpu [\d.e+-]+ s in", text)


def measure_receiving(runs):
    words = f"onoff --serverMode=true --server=10.0.1.11 --client=10.0.1.2 --duration=5 --packetSize={PAYLOAD}"
    for kpps in OFFERED_KPPS:
        for device, mode in DEVICES.items():
            text = runs.run(words + mode, SOURCE=f"{kpps * 1000} 3 {PAYLOAD + 42}")
            seconds = number(r"source sent \d+ frames in", text)
            offered, delivered = number(r"source sent", text), number(r"\nreceived", text) / PAYLOAD
            values = {"offered kpps": offered / seconds / 1000, "delivered kpps": delivered / seconds / 1000,
                      "offered frames": offered, "delivered frames": delivered}
            if device == OURS:
                values["dropped frames"] = sum(float(n) for n in re.findall(r"(?:port_drops|drop_rx_\w+)=(\d+)", text))
            for metric, value in values.items():
                runs.note(f"receive at {kpps} kpps", device, 0, metric, value)


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


class Picture:
    """An SVG with axes."""

    WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 340, 70, 16, 44, 56

    def __init__(self, title, x_label, y_label, most_x, most_y):
        self.most_x, self.most_y = most_x, most_y * 1.08
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.WIDTH} {self.HEIGHT}" '
                      'font-family="sans-serif" font-size="13">',
                      f'<rect width="{self.WIDTH}" height="{self.HEIGHT}" fill="white"/>']
        self.text(self.WIDTH / 2, 18, title, "middle", size=15)
        self.text(self.WIDTH / 2, self.HEIGHT - 8, x_label, "middle")
        self.text(self.LEFT - 54, self.TOP - 8, y_label, "start")
        for i in range(6):
            value = most_y * i / 5
            self.line([(0, value), (most_x, value)], "#ddd", 1)
            self.text(self.LEFT - 6, self.y(value) + 4, f"{value:.3g}" if value < 1000 else f"{value:.0f}", "end")

    def x(self, value):
        return self.LEFT + (self.WIDTH - self.LEFT - self.RIGHT) * value / self.most_x

    def y(self, value):
        return self.HEIGHT - self.BOTTOM - (self.HEIGHT - self.TOP - self.BOTTOM) * value / self.most_y

    def text(self, x, y, text, anchor, colour="#222", size=13):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{text}</text>')

    def line(self, points, colour, width=2):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def bar(self, x, value, width, colour, label):
        left, top = self.x(x), self.y(value)
        self.parts.append(f'<rect x="{left:.1f}" y="{top:.1f}" width="{self.x(x + width) - left:.1f}" '
                          f'height="{self.y(0) - top:.1f}" fill="{colour}"/>')
        self.text((left + self.x(x + width)) / 2, top - 4, label, "middle", size=11)

    def legend(self, names):
        for i, (name, colour) in enumerate(names):
            self.text(self.WIDTH - self.RIGHT, self.TOP + 6 + 16 * i, name, "end", colour)

    def save(self, path):
        path.write_text("\n".join(self.parts + ["</svg>"]) + "\n")


def draw_bars(path, title, y_label, groups):
    """Draws bars in groups: (name of the group, [(colour, values)])."""
    medians = [[(colour, statistics.median(values)) for colour, values in bars] for _, bars in groups]
    picture = Picture(title, "", y_label, len(groups), max(value for bars in medians for _, value in bars))
    for i, ((name, _), bars) in enumerate(zip(groups, medians)):
        width = 0.7 / len(bars)
        for j, (colour, value) in enumerate(bars):
            picture.bar(i + 0.15 + j * width, value, width * 0.9, colour, f"{value:.3g}" if value < 1000 else f"{value:.0f}")
        picture.text(picture.x(i + 0.5), picture.HEIGHT - picture.BOTTOM + 18, name, "middle")
    return picture, path


def draw(runs, writers, output):
    colours = list(COLOURS.items())
    both = lambda measurement, metric: [(colour, runs.values(measurement, device, metric)) for device, colour in colours]
    pictures = [
        draw_bars(output / "send.svg", f"UDP of {PAYLOAD} B, sent as fast as possible over veth", "Mbit/s; ns", [
            ("throughput, Mbit/s", both("UDP send", "Mbit/s")), ("CPU time of a packet, ns", both("UDP send", "CPU ns/packet"))]),
        draw_bars(output / "rtt.svg", "Round-trip time of a ping to the kernel, 50 a second", "µs", [
            (metric.split()[0], both("RTT", metric)) for metric in ("min µs", "median µs", "p99 µs")]),
        draw_bars(output / "write.svg", "FdNetDevice::Write, 64 B", "Mpps", [
            (writer, [(COLOURS[writer.split(",")[0]], runs.values("Write 64 B", writer, "Mpps"))]) for writer in writers]),
        draw_bars(output / "idle.svg", "CPU time of the process", "% of a core", [
            (name, both(name, "CPU %")) for name in ("idle", "50 pings/s")]),
    ]
    for picture, path in pictures:
        picture.legend(colours)
        picture.save(path)
    draw_receiving(runs, output / "receive.svg")
    draw_queues(runs, output / "backlog.svg", "backlog", "Largest backlog of the queue disc in 0.2 s", "packets")
    draw_queues(runs, output / "inflight.svg", "in flight", "Most bytes in the tx ring in 0.2 s", "bytes")


def draw_receiving(runs, path):
    lines = {}
    for device in DEVICES:
        pairs = [[runs.median(f"receive at {kpps} kpps", device, f"{metric} kpps") for metric in ("offered", "delivered")]
                 for kpps in OFFERED_KPPS]
        lines[device] = sorted(pairs)
    most = max(pair[0] for pairs in lines.values() for pair in pairs)
    picture = Picture(f"Receiving UDP of {PAYLOAD} B", f"offered, kpps (0 to {most:.0f})", "delivered, kpps", most,
                      max(pair[1] for pairs in lines.values() for pair in pairs))
    for device, pairs in lines.items():
        picture.line([(0, 0)] + pairs, COLOURS[device])
        for offered, delivered in pairs:
            picture.text(picture.x(offered), picture.y(delivered) - 5, f"{delivered:.0f}", "end", COLOURS[device], 11)
    picture.legend(list(COLOURS.items()))
    picture.save(path)


def draw_queues(runs, path, metric, title, unit):
    series = {}
    for name in (queue_name(*queue) for queue in QUEUES):
        rows = [row for row in runs.rows if row[1] == name and row[3].startswith(metric)]
        series[name] = [(float(row[3].split()[-2]), row[4]) for row in rows]
    most = max(value for points in series.values() for _, value in points)
    picture = Picture(f"{title}, UDP at 150 Mbit/s over a wire of 100 Mbit/s", "s", unit, 4, max(most, 1))
    for (name, points), colour in zip(series.items(), QUEUE_COLOURS):
        picture.line(points, colour)
    picture.legend(list(zip(series, QUEUE_COLOURS)))
    picture.save(path)


def print_table(runs, writers):
    print(f"\n{'':34} {OURS:>18} {STOCK:>14} {'ratio':>7}")
    compared = [("UDP send", "Mbit/s"), ("UDP send", "CPU ns/packet"), ("RTT", "min µs"), ("RTT", "median µs"),
                ("RTT", "p99 µs"), ("idle", "CPU %"), ("50 pings/s", "CPU %")]
    compared += [(f"receive at {kpps} kpps", "delivered kpps") for kpps in OFFERED_KPPS]
    for measurement, metric in compared:
        ours, stock = (runs.median(measurement, device, metric) for device in (OURS, STOCK))
        print(f"{measurement + ', ' + metric:34} {ours:18.2f} {stock:14.2f} {ours / stock if stock else 0:7.2f}")
    for writer in writers:
        print(f"Write 64 B, {writer}: {runs.median('Write 64 B', writer, 'Mpps'):.2f} Mpps")
    for kpps in OFFERED_KPPS:
        offered, delivered, dropped = (runs.median(f"receive at {kpps} kpps", OURS, f"{metric} frames")
                                       for metric in ("offered", "delivered", "dropped"))
        print(f"{OURS} at {kpps} kpps: {offered:.0f} offered = {delivered:.0f} delivered + {dropped:.0f} dropped "
              f"+ {offered - delivered - dropped:.0f}")
    for name in (queue_name(*queue) for queue in QUEUES):
        rows = [row for row in runs.rows if row[1] == name]
        last = {metric: max(row[4] for row in rows if row[3].startswith(metric) and float(row[3].split()[-2]) > 2)
                for metric in ("backlog", "in flight")}
        print(f"{name} after 2 s: at most {last['backlog']:.0f} packets in the queue disc, {last['in flight']:.0f} bytes in the ring")


def machine():
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    load = Path("/proc/loadavg").read_text().split()[0]
    return f"{model.group(1) if model else platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}, load {load}"


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    output = Path(sys.argv[3])
    output.mkdir(parents=True, exist_ok=True)
    runs = Runs(str(Path(sys.argv[1]).resolve()), str(Path(sys.argv[2]).resolve()))
    print(f"before: {machine()}", flush=True)
    for measure in (measure_sending, measure_rtt, measure_idle, measure_receiving, measure_queues):
        measure(runs)
        print(f"{measure.__name__}: load {Path('/proc/loadavg').read_text().split()[0]}", flush=True)
    writers = measure_writing(runs)
    with open(output / "figures.csv", "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("measurement", "subject", "round", "metric", "value"))
        table.writerows((*row[:4], f"{row[4]:g}") for row in runs.rows)
    draw(runs, writers, output)
    print_table(runs, writers)
    print(f"after: {machine()}")


main()
