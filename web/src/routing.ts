/** What a router has done between two answers to `status`. */

import type { Counts, RouterInterface, RouterStatus } from "./api.ts";

/** An interface between two answers. A rate is null if there is no earlier answer of this run. */
export interface InterfaceRates {
  name: string;
  bps: number | null;
  pps: number | null;
  passed_pps: number | null;
  dropped_pps: number | null;
}

/** A thread between two answers. */
export interface WorkerRates {
  id: number;
  pps: number | null;
  busy: number | null;
}

/** Compares the interfaces of two answers. */
export function interfaceRates(before: RouterStatus | null, after: RouterStatus): InterfaceRates[] {
  const of = new Map(before?.interfaces.map((each) => [each.name, each]));
  return after.interfaces.map((each) => {
    const earlier = of.get(each.name);
    const rate = (value: (of: RouterInterface) => number) =>
      earlier ? perSecond(before!, after, value(earlier), value(each)) : null;
    const bytes = rate((of) => of.forwarded.bytes);
    return {
      name: each.name,
      bps: bytes === null ? null : bytes * 8,
      pps: rate((of) => of.forwarded.packets),
      passed_pps: rate((of) => sum(of.passed)),
      dropped_pps: rate((of) => sum(of.dropped)),
    };
  });
}

/** Compares the threads of two answers. */
export function workerRates(before: RouterStatus | null, after: RouterStatus): WorkerRates[] {
  const of = new Map(before?.workers.map((each) => [each.id, each]));
  return after.workers.map(({ id, frames, busy_ns }) => {
    const earlier = of.get(id);
    if (!earlier) return { id, pps: null, busy: null };
    const busy = perSecond(before!, after, earlier.busy_ns, busy_ns);
    return { id, pps: perSecond(before!, after, earlier.frames, frames), busy: busy === null ? null : busy / 1e9 };
  });
}

/** `3 driver, 1 ttl`; `0` if there is nothing. */
export function named(counts: Counts): string {
  const all = Object.entries(counts).filter(([, count]) => count > 0);
  return all.map(([name, count]) => `${count} ${name}`).join(", ") || "0";
}

function sum(counts: Counts): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/** Null if the answers are of different runs. */
function perSecond(before: RouterStatus, after: RouterStatus, earlier: number, now: number): number | null {
  const time_ns = after.elapsed_ns - before.elapsed_ns;
  return time_ns > 0 && now >= earlier ? ((now - earlier) * 1e9) / time_ns : null;
}
