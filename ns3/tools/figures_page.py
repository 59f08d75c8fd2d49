#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draws what figures.py has measured: figures_page.py [--check] FIGURES.CSV PAGE.RST

Writes the page, and beside the CSV file a picture for each figure: SVG, and PNG where rsvg-convert is installed.
With --check, writes nothing, and fails if the page or an SVG is not the one for the CSV file.
"""

import csv
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from figures_svg import Picture, draw_bars

OURS, STOCK, NONE = "SlipringNetDevice", "FdNetDevice", "no device"
PRIORITY = f"{OURS}, real-time priority"
COLOURS = {OURS: "#1f6f8b", STOCK: "#d1495b"}
QUEUE_COLOURS = ["#d1495b", "#1f6f8b", "#e9a23b", "#3a8f5c"]
# Frames that slipring-source stamps before it sends them.
BURST = 16
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

    def spread(self, measurement, subject, metric):
        """Returns the median, with the range of all rounds, in words."""
        return in_range(self.values(measurement, subject, metric))

    def ratios(self, measurement, metric, ours=OURS, stock=STOCK):
        """Returns the ratios of the two devices in each round: the two were measured one after the other."""
        return [a / b for a, b in zip(self.values(measurement, ours, metric), self.values(measurement, stock, metric))]

    def shares(self, device):
        """Returns the device's share of a sent packet's CPU time in each round: the program's, less its time without a device."""
        metric = "CPU µs per packet"
        return [a - b for a, b in zip(self.values("UDP send", device, metric), self.values("UDP send", NONE, metric))]

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


def in_range(values):
    """Returns the median, with the range of all rounds, for the table."""
    return f"{short(statistics.median(values))} ({short(min(values))} to {short(max(values))})"


def in_words(values, unit):
    """Returns the median, with the range of all rounds."""
    return f"{statistics.median(values):.2f} {unit} ({min(values):.2f} to {max(values):.2f})"


def goals(figures):
    """Yields each goal: its words, the figure in words, whether it is met, or ``None`` if that is not known."""
    yield from sending_goals(figures)
    yield from receiving_goals(figures)
    limited = [queue for queue in figures.queues() if queue.endswith(", BQL")]
    most = max(figures.settled(queue, "in flight") for queue in limited)
    yield "with byte queue limits, two frames at most in the ring", f"{most:.0f} bytes", most <= BQL_BYTES
    idle = figures.values("idle", OURS, "CPU %")
    yield "idle: below 1 % of a core", in_words(idle, "%"), statistics.median(idle) < 1


def sending_goals(figures):
    ratios = figures.ratios("UDP send", "Mbit/s")
    yield "UDP of 1400 B as fast as possible: at least 1.15 × the stock device's throughput", in_words(ratios, "×"), statistics.median(ratios) >= 1.15
    ratios = figures.ratios("UDP send", "CPU µs per packet")
    yield "the same: CPU time of a packet at most 0.85 × the stock device's", in_words(ratios, "×"), statistics.median(ratios) <= 0.85
    ours, stock = figures.shares(OURS), figures.shares(STOCK)
    ratios = [a / b for a, b in zip(ours, stock)]
    without = figures.median("UDP send", NONE, "CPU µs per packet")
    yield "the same: the device's share of that time at most 0.85 × the stock device's", \
        f"{in_words(ratios, '×')}: {statistics.median(ours):.2f} µs and {statistics.median(stock):.2f} µs; without a device, a packet takes {without:.2f} µs", \
        statistics.median(ratios) <= 0.85
    ratios = figures.ratios("RTT", "median µs")
    yield "median round-trip time at most 1.2 × the stock device's", in_words(ratios, "×"), statistics.median(ratios) <= 1.2
    due, answered = (sum(figures.values("50 pings/s", OURS, metric)) for metric in ("due", "answered"))
    yield "the same: each ping is answered", f"{answered:.0f} of {due:.0f}", answered == due
    ratios = figures.ratios("Write 64 B", "Mpps", f"{OURS}, veth", f"{STOCK}, veth")
    yield "``Write`` of 64 B on veth at least 1.2 × the stock device's", in_words(ratios, "×"), statistics.median(ratios) >= 1.2
    pipe = figures.values("Write 64 B", f"{OURS}, pipe", "Mpps")
    yield "``Write`` of 64 B on a pipe at least 3 Mpps", in_words(pipe, "Mpps"), statistics.median(pipe) >= 3


def receiving_goals(figures):
    name, peak = overload(figures)
    values = lambda metric: figures.values(name, OURS, metric)
    times = statistics.median(values("offered kpps")) / peak
    shares = [100 * delivered / peak for delivered in values("delivered kpps")]
    yield f"receiving at {times:.1f} × the capacity (goal: 3 ×): at least 80 % of the peak", in_words(shares, "%"), statistics.median(shares) >= 80 and times >= 3
    offered, delivered, dropped = (sum(values(f"{metric} frames")) for metric in ("offered", "delivered", "dropped"))
    missing = offered - delivered - dropped
    yield "the same: offered = delivered + counted drops, to 0.1 %", f"{missing:.0f} of {offered:.0f} frames missing", abs(missing) <= offered / 1000
    aged = "no packet older than the ring ÷ the mean capacity"
    yield f"the same: no packet waits for more others than the ring has slots, and {BURST} that the source sends at once", *longest_queue(values)
    yield f"the same, the simulator at real-time priority: {aged}", *oldest_packet(figures, name, PRIORITY, "oldest ms")
    yield f"the same, at the ordinary priority: {aged}", *oldest_packet(figures, name, OURS, "oldest ms")
    yield f"the same, without the time in which the machine stopped the simulator: {aged}", *oldest_packet(figures, name, OURS, "oldest while running ms")


def oldest_packet(figures, name, subject, metric):
    """Returns the oldest packet in words, of the run that is the nearest to its ring ÷ its capacity or the farthest above that, and whether it is below."""
    values = lambda metric: figures.values(name, subject, metric)
    if not values(metric) or not values("longest stop ms"):
        return "not measured", None
    times = min(offered / delivered for offered, delivered in zip(values("offered kpps"), values("delivered kpps")))
    bounds = [slots / kpps for slots, kpps in zip(values("ring slots"), values("delivered kpps"))]
    _, oldest, bound, stop = max((oldest / bound, oldest, bound, stop) for oldest, bound, stop in zip(values(metric), bounds, values("longest stop ms")))
    return f"{oldest:.2f} ms, ring {bound:.2f} ms; the longest stop {stop:.2f} ms; {times:.1f} × the capacity at least", oldest <= bound if times >= 3 else None


def longest_queue(values):
    """Returns in words how long the queue before the application became, and whether the ring bounds it."""
    if not values("longest queue"):
        return "not measured", None
    slots, queue = values("ring slots")[0], max(values("longest queue"))
    return f"{queue:.0f} packets, {slots:.0f} slots", queue <= slots + BURST


def comparisons(figures):
    """Yields the rows of the table: what was measured, our figures, the stock device's, the ratio."""
    yield from compare(figures, ("UDP send", "Mbit/s"), ("UDP send", "CPU µs per packet"))
    ours, stock = figures.shares(OURS), figures.shares(STOCK)
    ratio = statistics.median(a / b for a, b in zip(ours, stock))
    yield "UDP send, CPU µs per packet: the device's share", in_range(ours), in_range(stock), f"{ratio:.2f}"
    yield from compare(figures, ("TCP send", "Mbit/s"), ("RTT", "median without lag µs"), ("RTT", "min µs"), ("RTT", "median µs"), ("RTT", "p99 µs"),
                       ("idle", "CPU %"), ("50 pings/s", "CPU %"))
    yield from compare(figures, *((name, metric) for name in figures.rates() for metric in ("offered kpps", "delivered kpps", "oldest ms")))


def compare(figures, *compared):
    """Yields rows of the table for these pairs of measurement and metric."""
    for measurement, metric in compared:
        ratios = figures.ratios(measurement, metric) if min(figures.values(measurement, STOCK, metric)) > 0 else []
        yield f"{measurement}, {metric}", *(figures.spread(measurement, device, metric) for device in (OURS, STOCK)), \
            f"{statistics.median(ratios):.2f}" if ratios else ""


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


def repeats(figures):
    """Returns sentences on how often runs of reception were repeated, and on packets that were left out."""
    values = lambda metric, subjects=(OURS, PRIORITY): [row["value"] for row in figures.rows if row["subject"] in subjects and row["metric"] == metric]
    left_out = lambda *subjects: f"{sum(values('left out frames', subjects)):.0f} of {sum(values('delivered frames', subjects)):.0f}"
    tries, stopped = values("tries"), sum(stop > 1 for stop in values("longest stop ms"))
    return f"A run in which {OURS} receives, and the machine stops the simulator for more than 1 ms at once, is repeated, ten tries at most: {len(tries)} runs " \
        f"took {sum(tries):.0f} tries, and for {stopped}, the try with the shortest such stop counts. Ages leave out packets that the machine " \
        f"kept in the source for more than a millisecond, by stopping it: {left_out(OURS, PRIORITY)} of {OURS}, and {left_out(STOCK)} of {STOCK}. "


def page(figures):
    run = figures.run
    lines = [".. SPDX-License-Identifier: GPL-2.0-only", ".. Made by ns3/tools/figures_page.py from figures/figures.csv.", "",
             "Figures", "-------", "",
             f"Measured on {run['date']}: {run['machine']}; load average {run['load before']} before and {run['load after']} after; "
             "over veth in namespaces, the two devices in turn. Figures are medians of three runs with their range, and one run for queues; a ratio is that of "
             "the two devices in the same round. ``make ns3-figures`` measures again and writes this page. ``figures/figures.csv`` has each number.", "",
             "A packet's age is the time from the source to the application. It is at most the ring ÷ the capacity if no more packets are delivered while it "
             "waits than the ring has slots, and if the simulator runs meanwhile. The scheduler, and the host of a virtual machine, stop the simulator for "
             "milliseconds now and then; an age *without that time* is told, too. The scheduler lets a simulator at real-time priority run on a CPU of its own "
             "(``chrt --fifo 1 taskset --cpu-list 1 PROGRAM``), as here for a second of load; under load for longer, Linux keeps 50 ms of each second for "
             f"other threads that wait for that CPU. {repeats(figures)}While packets take longer than on average, for example because of the caches, they are "
             "older than the ring ÷ the mean capacity. After the ring was full, the device keeps a quarter of it free until less arrives, and drops "
             "the oldest packets for that (``RxDropOldest``).", "",
             "The device's *share* of a packet's CPU time is the time of the whole program, divided by the packets, less the same of a program whose device "
             "discards each packet (``fd-netmap-emu-onoff --discard=true``). In the sender's time, veth also runs the kernel of the receiver, as far as the "
             "receiver's socket: both devices' shares have that in them.", "",
             "Goals", "*****", ""]
    lines += table(("goal", "measured", ""), [(*goal, VERDICTS[met]) for *goal, met in goals(figures)])
    lines += ["Beside the stock device", "***********************", ""]
    lines += table(("", OURS, STOCK, "ratio"), comparisons(figures))
    lines += ["Queues over a wire of 100 Mbit/s, after 2 s", "*******************************************", ""]
    lines += table(("", "most packets in the queue disc", "most bytes in the tx ring"),
                   [(queue, short(figures.settled(queue, "backlog")), short(figures.settled(queue, "in flight"))) for queue in figures.queues()])
    lines += ["Pictures", "********", ""]
    for name, text in PICTURES.items():
        lines += [f".. figure:: figures/{name}.png", f"   :target: figures/{name}.svg", f"   :alt: {name}", "", f"   {text}", ""]
    return "\n".join(lines).rstrip() + "\n"


def pictures(figures):
    """Returns the SVG of each picture, by its name."""
    both = lambda measurement, metric: [(colour, figures.median(measurement, device, metric)) for device, colour in COLOURS.items()]
    write = lambda device, port: (COLOURS[device], figures.median("Write 64 B", f"{device}, {port}", "Mpps"))
    legend = list(COLOURS.items())
    return {
        "send": draw_bars("Sending to the kernel over veth", "Mbit/s", legend,
                          [("UDP", both("UDP send", "Mbit/s")), ("TCP", both("TCP send", "Mbit/s"))]),
        "rtt": draw_bars("Round-trip time of a ping", "µs", legend,
                         [(metric.split()[0], both("RTT", metric)) for metric in ("min µs", "median µs", "p99 µs")]),
        "write": draw_bars("FdNetDevice::Write, 64 B", "Mpps", legend,
                           [("veth", [write(OURS, "veth"), write(STOCK, "veth")]), ("pipe", [write(OURS, "pipe")])]),
        "idle": draw_bars("CPU time of the process", "% of a core", legend,
                          [(name, both(name, "CPU %")) for name in ("idle", "50 pings/s")]),
        "receive": draw_receiving(figures),
        "backlog": draw_queues(figures, "backlog", "Largest backlog of the queue disc in 0.2 s", "packets"),
        "inflight": draw_queues(figures, "in flight", "Most bytes in the tx ring in 0.2 s", "bytes"),
    }


def draw_receiving(figures):
    lines = {device: [tuple(figures.median(name, device, f"{metric} kpps") for metric in ("offered", "delivered"))
                      for name in figures.rates()] for device in COLOURS}
    points = [point for line in lines.values() for point in line]
    picture = Picture("Receiving UDP of 1400 B", "offered, kpps", "delivered, kpps", max(x for x, _ in points), max(y for _, y in points))
    for device, line in lines.items():
        picture.line([(0, 0)] + sorted(line), COLOURS[device])
        picture.dots(line, COLOURS[device])
    picture.legend(list(COLOURS.items()))
    return picture.svg()


def draw_queues(figures, metric, title, unit):
    courses = {queue: figures.course(queue, metric) for queue in figures.queues()}
    points = [point for course in courses.values() for point in course]
    picture = Picture(title, "time, s", unit, max(time for time, _ in points), max(max(value for _, value in points), 1))
    for (queue, course), colour in zip(courses.items(), QUEUE_COLOURS):
        picture.line(course, colour)
    picture.legend(list(zip(courses, QUEUE_COLOURS)))
    return picture.svg()


def to_png(output):
    if not shutil.which("rsvg-convert"):
        print("no PNG: apt install librsvg2-bin")
        return
    for name in PICTURES:
        subprocess.run(["rsvg-convert", "--zoom=1.5", f"--output={output / name}.png", output / f"{name}.svg"], check=True)


def outdated(texts):
    """Returns the files whose text is another one."""
    return [path for path, text in texts.items() if not path.exists() or path.read_text() != text]


def main():
    check = sys.argv[1:2] == ["--check"]
    if len(sys.argv) != 3 + check:
        sys.exit(__doc__)
    source, target = (Path(word) for word in sys.argv[1 + check :])
    figures = Figures(source)
    texts = {source.parent / f"{name}.svg": svg for name, svg in pictures(figures).items()} | {target: page(figures)}
    if check:
        sys.exit("\n".join(f"{path} is not made from {source}: ns3/tools/figures_page.py {source} {target}" for path in outdated(texts)) or None)
    for path, text in texts.items():
        path.write_text(text)
    to_png(source.parent)
    for words, figure, met in goals(figures):
        print(f"{VERDICTS[met]:10} {words}: {figure}")


main()
