/** Shows a router: its interfaces, its threads, its tables, and what it leaves to the kernel. */

import * as api from "./api.ts";
import { el, found, say } from "./dom.ts";
import { interfaceRates, named, workerRates } from "./routing.ts";
import { packetRate, rate, share } from "./units.ts";

/** How often the router is asked, in ms. */
const PERIOD_MS = 1000;

export interface RouterListener {
  /** The router has answered. */
  live(): void;
  /** The router does not answer now. It is asked again. */
  broken(): void;
  /** It has ended. */
  ended(): void;
}

/** A router that is on the page, until it is closed. */
export class RouterWatch {
  private before: api.RouterStatus | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isClosed = false;

  constructor(
    readonly pid: number,
    readonly name: string,
    private readonly listener: RouterListener,
  ) {
    void this.poll();
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
  }

  private async poll(): Promise<void> {
    try {
      const status = await api.ask<api.RouterStatus>(this.pid, "status");
      if (this.isClosed) return;
      show(this.before, status);
      this.before = status;
      this.listener.live();
    } catch (error) {
      if (this.isClosed) return;
      if (error instanceof api.Fault && [404, 502].includes(error.status)) {
        this.close();
        this.listener.ended();
        return;
      }
      this.listener.broken();
    }
    this.timer = setTimeout(() => void this.poll(), PERIOD_MS);
  }
}

const or = (value: number | null, text: (value: number) => string) => (value === null ? "–" : text(value));

function show(before: api.RouterStatus | null, now: api.RouterStatus): void {
  const { v4, v6, neighbours, resyncs, overruns, refused } = now.fib;
  say(found("router-state"), `${now.state} by ${now.io}`);
  say(
    found("router-tables"),
    `${v4} IPv4 and ${v6} IPv6 routes, ${neighbours} neighbours; tables read again ${resyncs} times, ` +
      `notifications lost ${overruns} times, without space ${refused}`,
  );
  const rates = interfaceRates(before, now);
  const interfaces = now.interfaces.map((of, at) => [
    of.name,
    of.mode,
    of.state,
    or(rates[at]!.bps, rate),
    or(rates[at]!.pps, packetRate),
    or(rates[at]!.passed_pps, packetRate),
    or(rates[at]!.dropped_pps, packetRate),
    named(of.dropped),
    named(of.passed),
    named(of.punted),
  ]);
  fill("router-interfaces", interfaces);
  const threads = workerRates(before, now);
  const workers = now.workers.map((of, at) => [
    String(of.id),
    or(threads[at]!.pps, packetRate),
    or(threads[at]!.busy, share),
    String(of.held),
    named(of.limited),
    rules(of.rules),
  ]);
  found("router-workers").hidden = workers.length === 0;
  fill("router-workers", workers);
  const left = now.left_to_kernel.map((text) => el("li", {}, text));
  found("router-left-title").hidden = left.length === 0;
  found("router-left").replaceChildren(...left);
}

function rules(of: api.RouterRules | undefined): string {
  if (!of) return "–";
  return `${of.dropped} dropped, ${of.delayed} delayed (${of.waiting} wait), ${of.made} made (${of.unsent} not sent)`;
}

/** Writes the cells of a table. The rows stay, so that a selection of text stays as well. */
function fill(id: string, rows: string[][]): void {
  const body = found(id).querySelector("tbody")!;
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, at) => {
    const row = body.rows[at] ?? body.insertRow();
    cells.forEach((text, column) => say(row.cells[column] ?? row.insertCell(), text));
  });
}
