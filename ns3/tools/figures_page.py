#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draws what figures.py has measured: figures_page.py [--check] FIGURES.CSV PAGE.RST

Writes the page, and beside the CSV file a picture for each figure: SVG, and PNG where rsvg-convert is installed.
With --check, writes nothing, and fails if the page is not the one for the CSV file.
"""

import csv
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from figures_svg import Picture, draw_bars

OURS, STOCK = "SlipringNetDevice", "FdNetDevice"
COLOURS = {OURS: "#1f6f8b", STOCK: "#d1495b"}
QUEUE_COLOURS = ["#d1495b", "#1f6f8b", "#e9a23b", "#3a8f5c"]
# Two frames of the MTU.
BQL_BYTES = 2 * 1514
# The words for whether a goal is met.
VERDICTS = {True: "met", False: "**missed**", None: ""}


class Figures:
    """The rows of the CSV file."""

    def __init__(self, path):
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        self.run = {row["metric"]: row["value"] for row in rows if row["measurement"] == "run"}
        self.rows = [{**row, "value": float(row["value"])} for row in rows if row["measurement"] != "run"]

    def values(self, measurement, subject, metric):
        return [row["value"] for row in self.rows
                if (row["measurement"], row["subject"], row["metric"]) == (measurement, subject, metric)]

    def median(self, measurement, subject, metric):
        return statistics.median(self.values(measurement, subject, metric))

    def ratio(self, measurement, metric):
        return self.median(measurement, OURS, metric) / self.median(measurement, STOCK, metric)

    def rates(self):
        """Returns the measurements of reception, by rising rate."""
        names = dict.fromkeys(row["measurement"] for row in self.rows if row["measurement"].startswith("receive at"))
        return sorted(names, key=lambda name: self.median(name, OURS, "offered kpps"))

    def queues(self):
        return list(dict.fromkeys(row["subject"] for row in self.rows if row["measurement"] == "100 Mbit/s"))

    def course(self, queue, metric):
        """Returns the course of a queue's metric: (time in s, value)."""
        return [(float(row["metric"].split()[-2]), row["value"]) for row in self.rows
                if row["subject"] == queue and row["metric"].startswith(metric)]

    def settled(self, queue, metric):
        """Returns the largest value after 2 s."""
        return max(value for time, value in self.course(queue, metric) if time > 2)


def overload(figures):
    """Returns the measurement at the lowest rate of 3 times the capacity, or at the highest rate, and the capacity in kpps."""
    peak = max(figures.median(name, OURS, "delivered kpps") for name in figures.rates())
    above = [name for name in figures.rates() if figures.median(name, OURS, "offered kpps") >= 3 * peak]
    return (above or figures.rates()[-1:])[0], peak


def goals(figures):
    """Yields each goal: its words, the figure in words, whether it is met, or ``None`` if that is not known."""
    name, peak = overload(figures)
    get = lambda metric: figures.median(name, OURS, metric)
    times = get("offered kpps") / peak
    ratio = figures.ratio("UDP send", "Mbit/s")
    yield "UDP of 1400 B as fast as possible: at least 1.15 × the stock device's throughput", f"{ratio:.2f} ×", ratio >= 1.15
    ratio = figures.ratio("UDP send", "CPU µs per packet")
    yield "the same: CPU time of a packet at most 0.85 × the stock device's", f"{ratio:.2f} ×", ratio <= 0.85
    ratio = figures.ratio("RTT", "median µs")
    yield "median round-trip time at most 1.2 × the stock device's", f"{ratio:.2f} ×", ratio <= 1.2
    due, answered = (sum(figures.values("50 pings/s", OURS, metric)) for metric in ("due", "answered"))
    yield "the same: each ping is answered", f"{answered:.0f} of {due:.0f}", answered == due
    writes = {subject: figures.median("Write 64 B", subject, "Mpps") for subject in (f"{OURS}, veth", f"{STOCK}, veth", f"{OURS}, pipe")}
    ratio = writes[f"{OURS}, veth"] / writes[f"{STOCK}, veth"]
    yield "``Write`` of 64 B on veth at least 1.2 × the stock device's", f"{ratio:.2f} ×", ratio >= 1.2
    pipe = writes[f"{OURS}, pipe"]
    yield "``Write`` of 64 B on a pipe at least 3 Mpps", f"{pipe:.2f} Mpps", pipe >= 3
    share = get("delivered kpps") / peak
    yield f"receiving at {times:.1f} × the capacity (goal: 3 ×): at least 80 % of the peak", f"{100 * share:.0f} %", share >= 0.8 and times >= 3
    offered, delivered, dropped = (sum(figures.values(name, OURS, f"{metric} frames")) for metric in ("offered", "delivered", "dropped"))
    missing = offered - delivered - dropped
    yield "the same: offered = delivered + counted drops, to 0.1 %", f"{missing:.0f} of {offered:.0f} frames missing", abs(missing) <= offered / 1000
    oldest, bound = max(figures.values(name, OURS, "oldest ms")), get("ring slots") / get("delivered kpps")
    pause = max(figures.values(name, OURS, "longest pause ms"))
    yield "the same: no packet older than the ring ÷ the capacity", f"oldest {oldest:.2f} ms, ring {bound:.2f} ms; no packet was processed for up to {pause:.2f} ms", oldest <= bound
    limited = [queue for queue in figures.queues() if queue.endswith(", BQL")]
    most = max(figures.settled(queue, "in flight") for queue in limited)
    yield "with byte queue limits, two frames at most in the ring", f"{most:.0f} bytes", most <= BQL_BYTES
    idle = figures.median("idle", OURS, "CPU %")
    yield "idle: below 1 % of a core", f"{idle:.2f} %", idle < 1


def comparisons(figures):
    """Yields the rows of the table: measurement, metric, our median, the stock device's."""
    compared = [("UDP send", "Mbit/s"), ("UDP send", "CPU µs per packet"), ("TCP send", "Mbit/s"), ("RTT", "min µs"),
                ("RTT", "median µs"), ("RTT", "p99 µs"), ("idle", "CPU %"), ("50 pings/s", "CPU %")]
    compared += [(name, metric) for name in figures.rates() for metric in ("delivered kpps", "oldest ms")]
    for measurement, metric in compared:
        yield measurement, metric, *(figures.median(measurement, device, metric) for device in (OURS, STOCK))


def table(header, rows):
    """Returns lines of a list-table of reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (header, *rows):
        lines += [f"   {'*' if i == 0 else ' '} - {cell}".rstrip() for i, cell in enumerate(row)]
    return lines + [""]


def short(value):
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


# The pictures: name of the file, and what is below it.
PICTURES = {
    "send": "A simulated node sends to the host's kernel: UDP of 1400 B as fast as it can, and at most 500 Mbit/s by TCP, to ``iperf --server``.",
    "rtt": "Round-trip time of 50 pings a second to the host's kernel.",
    "write": "``FdNetDevice::Write`` in a loop: the lowest primitive, without the stack.",
    "idle": "CPU time of a node without traffic, and with 50 pings a second.",
    "receive": "A program sends UDP to a simulated node. The stock device collapses; ours sheds at the ring.",
    "backlog": "UDP at 150 Mbit/s over a wire of 100 Mbit/s, which the emulator's pacing makes: the backlog of the queue disc.",
    "inflight": "The same: bytes in the tx ring. With byte queue limits, two frames are near 0 here.",
}


def page(figures):
    run = figures.run
    lines = [".. SPDX-License-Identifier: GPL-2.0-only", ".. Made by ns3/tools/figures_page.py from figures/figures.csv.", "",
             "Figures", "-------", "",
             f"Measured on {run['date']}: {run['machine']}; load average {run['load before']} before and {run['load after']} after; "
             "over veth in namespaces, the two devices in turn; medians of three runs, but one run for queues; the oldest packet of a goal is that of all runs. ``make ns3-figures`` measures again and "
             "writes this page. ``figures/figures.csv`` has each number.", "",
             "Goals", "*****", ""]
    lines += table(("goal", "measured", ""), [(*goal, VERDICTS[met]) for *goal, met in goals(figures)])
    lines += ["Beside the stock device", "***********************", ""]
    lines += table(("", OURS, STOCK, "ratio"),
                   [(f"{measurement}, {metric}", short(ours), short(stock), f"{ours / stock:.2f}" if stock else "")
                    for measurement, metric, ours, stock in comparisons(figures)])
    lines += ["Queues over a wire of 100 Mbit/s, after 2 s", "*******************************************", ""]
    lines += table(("", "most packets in the queue disc", "most bytes in the tx ring"),
                   [(queue, short(figures.settled(queue, "backlog")), short(figures.settled(queue, "in flight"))) for queue in figures.queues()])
    lines += ["Pictures", "********", ""]
    for name, text in PICTURES.items():
        lines += [f".. figure:: figures/{name}.png", f"   :target: figures/{name}.svg", f"   :alt: {name}", "", f"   {text}", ""]
    return "\n".join(lines).rstrip() + "\n"


def draw(figures, output):
    """Draws all pictures."""
    both = lambda measurement, metric: [(colour, figures.median(measurement, device, metric)) for device, colour in COLOURS.items()]
    legend = list(COLOURS.items())
    draw_bars(output / "send.svg", "Sending to the kernel over veth", "Mbit/s", legend,
              [("UDP", both("UDP send", "Mbit/s")), ("TCP", both("TCP send", "Mbit/s"))])
    draw_bars(output / "rtt.svg", "Round-trip time of a ping", "µs", legend,
              [(metric.split()[0], both("RTT", metric)) for metric in ("min µs", "median µs", "p99 µs")])
    write = lambda device, port: (COLOURS[device], figures.median("Write 64 B", f"{device}, {port}", "Mpps"))
    draw_bars(output / "write.svg", "FdNetDevice::Write, 64 B", "Mpps", legend,
              [("veth", [write(OURS, "veth"), write(STOCK, "veth")]), ("pipe", [write(OURS, "pipe")])])
    draw_bars(output / "idle.svg", "CPU time of the process", "% of a core", legend,
              [(name, both(name, "CPU %")) for name in ("idle", "50 pings/s")])
    draw_receiving(figures, output / "receive.svg")
    draw_queues(figures, output / "backlog.svg", "backlog", "Largest backlog of the queue disc in 0.2 s", "packets")
    draw_queues(figures, output / "inflight.svg", "in flight", "Most bytes in the tx ring in 0.2 s", "bytes")


def draw_receiving(figures, path):
    lines = {device: [tuple(figures.median(name, device, f"{metric} kpps") for metric in ("offered", "delivered"))
                      for name in figures.rates()] for device in COLOURS}
    points = [point for line in lines.values() for point in line]
    picture = Picture("Receiving UDP of 1400 B", "offered, kpps", "delivered, kpps", max(x for x, _ in points), max(y for _, y in points))
    for device, line in lines.items():
        picture.line([(0, 0)] + sorted(line), COLOURS[device])
        picture.dots(line, COLOURS[device])
    picture.legend(list(COLOURS.items()))
    picture.save(path)


def draw_queues(figures, path, metric, title, unit):
    courses = {queue: figures.course(queue, metric) for queue in figures.queues()}
    points = [point for course in courses.values() for point in course]
    picture = Picture(title, "time, s", unit, max(time for time, _ in points), max(max(value for _, value in points), 1))
    for (queue, course), colour in zip(courses.items(), QUEUE_COLOURS):
        picture.line(course, colour)
    picture.legend(list(zip(courses, QUEUE_COLOURS)))
    picture.save(path)


def to_png(output):
    if not shutil.which("rsvg-convert"):
        print("no PNG: apt install librsvg2-bin")
        return
    for name in PICTURES:
        subprocess.run(["rsvg-convert", "--zoom=1.5", f"--output={output / name}.png", output / f"{name}.svg"], check=True)


def main():
    check = sys.argv[1:2] == ["--check"]
    if len(sys.argv) != 3 + check:
        sys.exit(__doc__)
    source, target = (Path(word) for word in sys.argv[1 + check :])
    figures = Figures(source)
    text = page(figures)
    if check:
        sys.exit(None if target.read_text() == text else f"{target} is not made from {source}: ns3/tools/figures_page.py {source} {target}")
    target.write_text(text)
    draw(figures, source.parent)
    to_png(source.parent)
    for words, figure, met in goals(figures):
        print(f"{VERDICTS[met]:10} {words}: {figure}")


main()
