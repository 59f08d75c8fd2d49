/** Values with units: for people, for settings, and as positions of a slider. */

/** At most three digits, without trailing zeros. */
function digits(value: number): string {
  const rounded = Number(value.toPrecision(3));
  return String(rounded);
}

function scaled(value: number, units: readonly (readonly [number, string])[]): [string, string] {
  const [size, unit] = units.find(([size]) => value >= size) ?? units[units.length - 1]!;
  return [digits(value / size), unit];
}

const PACKET_RATES = [[1e9, "Gpps"], [1e6, "Mpps"], [1e3, "kpps"], [1, "pps"]] as const;
const RATES = [[1e9, "Gbit"], [1e6, "Mbit"], [1e3, "kbit"], [1, "bit"]] as const;
const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]] as const;
const SIZES = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]] as const;

/** `12.5 Mbit/s` */
export function rate(bps: number): string {
  if (bps > 0 && bps < 1) return "0 bit/s";
  const [value, unit] = scaled(bps, RATES);
  return `${value} ${unit}/s`;
}

/** `12.5 kpps` */
export function packetRate(pps: number): string {
  return pps > 0 && pps < 1 ? "<1 pps" : scaled(pps, PACKET_RATES).join(" ");
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

/** Values in the notation of settings: `12.5Mbit`, `20ms`, `0.1%`. */
export const written = {
  rate: (bps: number): string => scaled(Math.max(1, Math.round(bps)), RATES).join(""),
  time: (ns: number): string => (ns < 1 ? "0ms" : scaled(Math.round(ns), TIMES).join("")),
  share: (part: number): string => `${plain(Number((part * 100).toPrecision(3)))}%`,
};

/** The number without an exponent. */
function plain(value: number): string {
  return value.toFixed(12).replace(/\.?0+$/, "");
}

/** The round numbers of a decade at which a slider stops. Other values can be typed. */
const ROUND = [1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9];

/**
 * The stops of a slider from `min` to `max`, with about equal ratios. `zero` puts 0 at its left
 * end. `open` puts null, which means no limit, at its right end.
 */
export class Scale {
  private readonly stops: (number | null)[] = [];

  constructor(min: number, max: number, end: "zero" | "open") {
    if (end === "zero") this.stops.push(0);
    for (let power = Math.floor(Math.log10(min)); 10 ** power <= max; power += 1) {
      const stops = ROUND.map((number) => Number((number * 10 ** power).toPrecision(2)));
      this.stops.push(...stops.filter((stop) => stop >= min && stop <= max));
    }
    if (end === "open") this.stops.push(null);
  }

  /** The last step. */
  get last(): number {
    return this.stops.length - 1;
  }

  /** The value at a step. */
  value(step: number): number | null {
    return this.stops[step] ?? null;
  }

  /** The step nearest to a value. Values beyond an end are at that end. */
  step(value: number | null): number {
    const exact = this.stops.indexOf(value);
    if (exact >= 0 || value === null) return Math.max(exact, 0);
    const off = (stop: number | null) => (stop ? Math.abs(Math.log(stop / value)) : Infinity);
    return this.stops.reduce<number>((best, stop, at) => (off(stop) < off(this.stops[best]!) ? at : best), 1);
  }
}
