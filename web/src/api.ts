/** Requests to the gateway, and its answers. */

export interface Amount {
  packets: number;
  bytes: number;
}

/** Summary of a distribution. */
export interface Spread {
  count: number;
  mean: number;
}

export interface LinkStats {
  name: string;
  from: string;
  to: string;
  asked: {
    rate: string;
    rate_bps?: number;
    delay: string;
    delay_ns?: { mean: number; sd: number };
    loss: string;
    loss_share?: number;
    queue: string;
  };
  input: Amount;
  made: Amount;
  output: Amount;
  lost: Record<string, Amount>;
  delay_ns?: Spread;
  queue_bytes?: Spread;
}

export interface Stats {
  elapsed_ns: number;
  links: LinkStats[];
}

/** Numbers of packets by cause, reason or class. */
export type Counts = Record<string, number>;

export interface RouterInterface {
  name: string;
  mode: string;
  state: string;
  forwarded: Amount;
  passed: Counts;
  dropped: Counts;
  punted: Counts;
}

export interface RouterRules {
  dropped: number;
  delayed: number;
  waiting: number;
  made: number;
  unsent: number;
}

export interface RouterWorker {
  id: number;
  frames: number;
  busy_ns: number;
  held: number;
  limited: Counts;
  failed: number;
  rules?: RouterRules;
}

/** The answer of a router to `status`. */
export interface RouterStatus {
  elapsed_ns: number;
  state: string;
  io: string;
  fib: {
    v4: number;
    v6: number;
    neighbours: number;
    generation: number;
    resyncs: number;
    overruns: number;
    refused: number;
  };
  interfaces: RouterInterface[];
  workers: RouterWorker[];
  left_to_kernel: string[];
}

/** A part of a link, as in a file of links. */
export type Part = Record<string, unknown>;

export interface Config {
  link?: Record<string, Record<string, Part | string>>;
}

export interface Explained {
  links: Record<
    string,
    {
      rate: { bits_per_sec?: number; mean_bits_per_sec?: number };
      queue?: { bytes: number | null; delay_ns: number | null; packets: number | null };
      delay: { mean_ns: number; sd_ns: number };
    }
  >;
}

export interface Version {
  version: number;
  at_ns: number;
  begun: boolean;
  /** When this version was taken back. Absent if it was not. */
  taken_back_at_ns?: number;
  changes: Record<string, unknown>;
}

export interface Preset {
  name: string;
  title: string;
  about: string;
  up: Record<string, string>;
  down: Record<string, string>;
}

export interface Running {
  pid: number;
  names: string[];
}

export interface Hello {
  name: string | null;
  pid: number;
  command: string;
  version: string;
  seed: number;
  /** Only present for programs other than emulators. */
  program?: string;
}

/** An error, in the parts that every slipring command reports. */
export class Fault extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    summary: string,
    readonly cause_: string,
    readonly help: string,
  ) {
    super(summary);
  }

  get text(): string {
    return [this.message, this.cause_, this.help].filter(Boolean).join(". ");
  }
}

async function answer<T>(response: Response): Promise<T> {
  const value: unknown = await response.json().catch(() => null);
  if (response.ok) return value as T;
  const { code = "", summary = response.statusText, cause = "", help = "" } = (value ??
    {}) as Record<string, string>;
  throw new Fault(response.status, code, summary, cause, help);
}

export async function get<T>(what: string): Promise<T> {
  return answer<T>(await fetch(`/api/v1/${what}`));
}

/** Sends a request to a run, as `slipring emulate ctl` does. */
export async function ask<T>(pid: number, what: string, args: object = {}): Promise<T> {
  const response = await fetch(`/api/v1/${pid}/${what}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(args),
  });
  return answer<T>(response);
}

export interface Watcher {
  stats(stats: Stats): void;
  /** The connection broke. The browser connects again. */
  broken(): void;
  /** The run has ended. */
  ended(): void;
}

/** Calls `watcher` for a run until the returned function is called. */
export function watch(pid: number, period: string, watcher: Watcher): () => void {
  const source = new EventSource(`/api/v1/${pid}/watch?period=${period}`);
  const end = () => {
    source.close();
    watcher.ended();
  };
  source.onmessage = (event) => watcher.stats(JSON.parse(event.data) as Stats);
  source.addEventListener("end", end);
  source.addEventListener("fault", end);
  source.onerror = () => {
    // An answer that is not an event stream is final: the run has ended.
    if (source.readyState === EventSource.CLOSED) watcher.ended();
    else watcher.broken();
  };
  return () => source.close();
}
