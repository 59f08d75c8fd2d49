/** Values for the time between two statistics, which count from the start of the run. */

import type { Amount, LinkStats, Spread, Stats } from "./api.ts";

/** One link between two statistics. A value is null if no frame gave a value. */
export interface Sample {
  name: string;
  rate_bps: number;
  delay_ns: number | null;
  queue_bytes: number | null;
  loss: number | null;
  arrived: number;
  left: number;
}

/** Compares all links of two statistics. Null if these are of different runs. */
export function between(before: Stats, after: Stats): Sample[] | null {
  const time_ns = after.elapsed_ns - before.elapsed_ns;
  if (time_ns <= 0) return null;
  const old = new Map(before.links.map((link) => [link.name, link]));
  const samples: Sample[] = [];
  for (const link of after.links) {
    const earlier = old.get(link.name);
    if (!earlier || link.input.packets < earlier.input.packets) return null;
    samples.push(sample(earlier, link, time_ns));
  }
  return samples;
}

function sample(before: LinkStats, after: LinkStats, time_ns: number): Sample {
  const arrived = after.input.packets - before.input.packets;
  const lost = total(after.lost) - total(before.lost);
  return {
    name: after.name,
    rate_bps: ((after.output.bytes - before.output.bytes) * 8e9) / time_ns,
    delay_ns: mean(before.delay_ns, after.delay_ns),
    queue_bytes: mean(before.queue_bytes, after.queue_bytes),
    loss: arrived > 0 ? Math.min(1, Math.max(0, lost / arrived)) : null,
    arrived,
    left: after.output.packets - before.output.packets,
  };
}

function total(lost: Record<string, Amount>): number {
  return Object.values(lost).reduce((sum, amount) => sum + amount.packets, 0);
}

/** The mean of the values between two statistics, from the means of all values up to each. */
function mean(before: Spread | undefined, after: Spread | undefined): number | null {
  if (!after) return null;
  const { count, mean } = before ?? { count: 0, mean: 0 };
  const came = after.count - count;
  if (came <= 0) return null;
  return Math.max(0, (after.count * after.mean - count * mean) / came);
}

/** The page warns if no frame has arrived for this time, in ns. */
const SILENCE_NS = 3e9;

/** Detects links on which no frame arrives, or from which no frame leaves. */
export class Silence {
  private readonly arrived = new Map<string, number>();
  private readonly left = new Map<string, number>();

  /**
   * Takes the next samples, at a time of the run. `delay_ns` is how long frames may be on a link.
   */
  add(at_ns: number, samples: Sample[], delay_ns: (name: string) => number): string | null {
    const silent: string[] = [];
    const stuck: string[] = [];
    let longest = 0;
    for (const { name, arrived, left } of samples) {
      if (arrived > 0 || !this.arrived.has(name)) this.arrived.set(name, at_ns);
      if (left > 0 || !this.left.has(name) || arrived === 0) this.left.set(name, at_ns);
      const quiet = at_ns - this.arrived.get(name)!;
      if (quiet >= SILENCE_NS) silent.push(name);
      longest = Math.max(longest, quiet);
      if (at_ns - this.left.get(name)! >= SILENCE_NS + delay_ns(name)) stuck.push(name);
    }
    if (samples.length > 0 && silent.length === samples.length) {
      return `No traffic passes: nothing has arrived on ${list(silent)} for ${Math.floor(longest / 1e9)} s.`;
    }
    if (stuck.length > 0) return `Nothing gets through: frames arrive on ${list(stuck)}, but none leaves.`;
    return null;
  }
}

function list(names: string[]): string {
  if (names.length > 3) return `${names.length} links`;
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
