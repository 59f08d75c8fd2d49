/** Four plots over time: the measured values of each link, and its settings. */

import uPlot from "uplot";
import { el, say } from "./dom.ts";
import type { Sample } from "./measure.ts";
import type { Setting } from "./settings.ts";
import * as units from "./units.ts";

/** The most and the least seconds that are shown. */
const WINDOW_S = 60;
const LEAST_S = 10;

interface Kind {
  id: string;
  title: string;
  /** The upper end of the axis is at least this. */
  floor: number;
  show(value: number): string;
  measured(sample: Sample): number | null;
  set(setting: Setting): number | null;
  /** The meaning of the setting's line. */
  means: string;
  /** Distances between marks. Absent if multiples of powers of ten suit. */
  marks?: number[];
}

const KINDS: Kind[] = [
  {
    id: "rate",
    title: "Rate",
    floor: 1e4,
    show: units.rate,
    measured: (sample) => sample.rate_bps,
    set: (setting) => setting.rate_bps,
    means: "the line",
  },
  {
    id: "delay",
    title: "Delay, one way",
    floor: 1e6,
    show: units.time,
    measured: (sample) => sample.delay_ns,
    set: (setting) => setting.delay_ns,
    means: "the mean behind the queue",
  },
  {
    id: "queue",
    title: "Queue",
    floor: 2048,
    show: units.size,
    measured: (sample) => sample.queue_bytes,
    set: ({ queue_ns, rate_bps }) =>
      queue_ns === null || rate_bps === null ? null : (queue_ns * rate_bps) / 8e9,
    means: "its limit",
    marks: Array.from({ length: 40 }, (_, power) => 2 ** power),
  },
  {
    id: "loss",
    title: "Loss",
    floor: 0.01,
    show: units.share,
    measured: (sample) => sample.loss,
    set: (setting) => setting.loss,
    means: "by the loss model; a full queue loses more",
  },
];

/** The colour of a link, from those in the style sheet. */
export function colour(index: number): string {
  return `var(--link-${index % 8})`;
}

export class Plots {
  private charts: Chart[] = [];
  private links: string[] = [];

  constructor(private readonly place: HTMLElement) {
    // A canvas does not follow CSS variables, so the plots are drawn again when these change.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show(this.links));
  }

  /** Starts empty plots for these links. */
  show(links: string[]): void {
    for (const chart of this.charts) chart.end();
    this.links = links;
    this.charts = KINDS.map((kind) => new Chart(kind, links));
    this.place.replaceChildren(...this.charts.map((chart) => chart.card));
    for (const chart of this.charts) chart.begin();
  }

  /** Adds values measured until `at_s`, one for each link, in the order of the links. */
  add(at_s: number, samples: Sample[], settings: Setting[]): void {
    for (const chart of this.charts) chart.add(at_s, samples, settings);
  }
}

class Chart {
  readonly card: HTMLElement;
  private readonly canvas = el("div", { class: "canvas", "aria-hidden": "true" });
  private readonly now: HTMLElement[];
  /** Times, then for each link its measured values and its settings. */
  private readonly data: (number | null)[][];
  private plot: uPlot | null = null;
  private readonly resized = new ResizeObserver(() => this.fit());

  constructor(
    private readonly kind: Kind,
    private readonly links: string[],
  ) {
    this.data = [[], ...links.flatMap(() => [[], []])];
    this.now = links.map(() => el("span", { class: "now" }, "–"));
    const legend = links.map((link, index) =>
      el("li", {}, swatch(index), el("span", { class: "name" }, link), this.now[index]!),
    );
    this.card = el(
      "figure",
      { class: "plot", "data-plot": kind.id },
      el(
        "figcaption",
        {},
        el("h2", {}, kind.title),
        el("ul", {}, ...legend),
      ),
      this.canvas,
      el("p", { class: "hint" }, `dashed: ${kind.means}`),
    );
  }

  /** Draws the plot. The card must be in the page. */
  begin(): void {
    const style = getComputedStyle(document.documentElement);
    const named = (name: string) => style.getPropertyValue(name).trim();
    const series = this.links.flatMap((_, index) => {
      const stroke = named(`--link-${index % 8}`);
      return [
        { stroke, width: 2, points: { show: false } },
        { stroke, width: 1.5, dash: [6, 4], points: { show: false }, paths: uPlot.paths.stepped!({ align: 1 }) },
      ];
    });
    const axis = { stroke: named("--faint"), grid: { stroke: named("--grid"), width: 1 }, ticks: { show: false } };
    const { show, floor, marks } = this.kind;
    this.plot = new uPlot(
      {
        ...this.size(),
        padding: [8, 16, 0, 0],
        legend: { show: false },
        cursor: { sync: { key: "slipring" }, y: false, points: { show: false } },
        scales: {
          x: { time: false, range: (_, start, end) => view(start ?? 0, end ?? 0) },
          y: { range: (_, __, most) => [0, Math.max(floor, (most ?? 0) * 1.15)] },
        },
        series: [{}, ...series],
        axes: [
          { ...axis, size: 28, values: (_, all) => all.map((at) => (at < 0 ? "" : `${at} s`)) },
          { ...axis, ...(marks && { incrs: marks }), size: 76, values: (_, all) => all.map((value) => (value === 0 ? "0" : show(value))) },
        ],
      },
      this.data as uPlot.AlignedData,
      this.canvas,
    );
    this.resized.observe(this.canvas);
  }

  end(): void {
    this.resized.disconnect();
    this.plot?.destroy();
  }

  add(at_s: number, samples: Sample[], settings: Setting[]): void {
    const [times, ...lines] = this.data as [number[], ...(number | null)[][]];
    times.push(at_s);
    samples.forEach((sample, index) => {
      const [measured, set] = [this.kind.measured(sample), this.kind.set(settings[index]!)];
      lines[2 * index]?.push(measured);
      lines[2 * index + 1]?.push(set);
      const asked = set === null ? "no limit" : this.kind.show(set);
      const text = measured === null ? "–" : this.kind.show(measured);
      say(this.now[index]!, `${text} of ${asked}`);
    });
    const gone = times.findIndex((time) => time >= at_s - WINDOW_S - 2);
    if (gone > 0) for (const column of this.data) column.splice(0, gone);
    this.plot?.setData(this.data as uPlot.AlignedData);
    this.card.dataset.points = String(times.length);
  }

  private size(): { width: number; height: number } {
    return { width: Math.max(200, this.canvas.clientWidth), height: 170 };
  }

  private fit(): void {
    this.plot?.setSize(this.size());
  }
}

/** The range of times that is shown, for points from `start` to `end`. */
function view(start: number, end: number): [number, number] {
  return [Math.max(end - WINDOW_S, Math.min(start, end - LEAST_S)), end];
}

export function swatch(index: number): HTMLElement {
  return el("span", { class: `swatch link-${index % 8}`, "aria-hidden": "true" });
}
