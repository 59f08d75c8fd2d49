/** Values with units: for people, for settings, and along a slider. */

/** Three digits at most, without zeros behind. */
function digits(value: number): string {
  const rounded = Number(value.toPrecision(3));
  return String(rounded);
}

function scaled(value: number, units: readonly (readonly [number, string])[]): [string, string] {
  const [size, unit] = units.find(([size]) => value >= size) ?? units[units.length - 1]!;
  return [digits(value / size), unit];
}

const RATES = [[1e9, "Gbit"], [1e6, "Mbit"], [1e3, "kbit"], [1, "bit"]] as const;
const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]] as const;
const SIZES = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]] as const;

/** `12.5 Mbit/s` */
export function rate(bps: number): string {
  if (bps > 0 && bps < 1) return "0 bit/s";
  const [value, unit] = scaled(bps, RATES);
  return `${value} ${unit}/s`;
}

/** `20 ms` */
export function time(ns: number): string {
  if (ns === 0) return "0 ms";
  const [value, unit] = scaled(ns, TIMES);
  return `${value} ${unit}`;
}

/** `64 KiB` */
export function size(bytes: number): string {
  const [value, unit] = scaled(bytes, SIZES);
  return `${value} ${unit}`;
}

/** `0.1 %` */
export function share(part: number): string {
  return `${digits(part * 100)} %`;
}

/** A value as settings have it: `12.5Mbit`, `20ms`, `0.1%`. */
export const written = {
  rate: (bps: number): string => scaled(Math.max(1, Math.round(bps)), RATES).join(""),
  time: (ns: number): string => (ns < 1 ? "0ms" : scaled(Math.round(ns), TIMES).join("")),
  share: (part: number): string => `${plain(Number((part * 100).toPrecision(3)))}%`,
};

/** Without an exponent. */
function plain(value: number): string {
  return value.toFixed(12).replace(/\.?0+$/, "");
}

/** Steps of a slider. */
export const STEPS = 1000;

/**
 * A slider from `min` to `max` with equal ratios. `zero` puts 0 at its left end; `open` puts
 * null, which is no limit, at its right end.
 */
export class Scale {
  constructor(
    readonly min: number,
    readonly max: number,
    readonly end: "zero" | "open",
  ) {}

  /** The value at a step: two digits, so that neighbours differ in the eye. */
  value(step: number): number | null {
    if (this.end === "zero" && step <= 0) return 0;
    if (this.end === "open" && step >= STEPS) return null;
    const part = this.end === "zero" ? (step - 1) / (STEPS - 1) : step / (STEPS - 1);
    const exact = this.min * (this.max / this.min) ** Math.min(1, Math.max(0, part));
    return Number(exact.toPrecision(2));
  }

  /** The step of a value; those beyond the ends are at the ends. */
  step(value: number | null): number {
    if (value === null) return STEPS;
    if (value <= 0) return 0;
    const part = Math.log(value / this.min) / Math.log(this.max / this.min);
    const inside = Math.min(1, Math.max(0, part)) * (STEPS - 1);
    return Math.round(this.end === "zero" ? inside + 1 : inside);
  }
}
