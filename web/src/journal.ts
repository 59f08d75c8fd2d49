/** The event log: each change with its version and time, and events that the page detected. */

import type { Version } from "./api.ts";
import { el } from "./dom.ts";

interface Note {
  at_ns: number;
  text: string;
  bad: boolean;
}

/** The most entries that are shown. */
const SHOWN = 100;

export class Journal {
  private notes: Note[] = [];
  private versions: Version[] = [];

  constructor(private readonly list: HTMLElement) {}

  /** Clears the log, because the page shows another run now. */
  clear(): void {
    this.notes = [];
    this.versions = [];
    this.draw();
  }

  /** Adds an event that the page detected at a time of the run. */
  note(at_ns: number, text: string, bad = false): void {
    this.notes = [...this.notes.slice(-SHOWN), { at_ns, text, bad }];
    this.draw();
  }

  /** Shows the versions of the run. */
  show(versions: Version[]): void {
    this.versions = versions;
    this.draw();
  }

  private draw(): void {
    const changes = this.versions.map((version) => ({
      at_ns: version.at_ns,
      element: entry(version.at_ns, [
        el("span", { class: "version" }, `version ${version.version}`),
        ` ${said(version)}`,
        ...tag(version),
      ]),
    }));
    const notes = this.notes.map(({ at_ns, text, bad }) => ({
      at_ns,
      element: entry(at_ns, [el("span", { class: bad ? "bad" : "note" }, text)]),
    }));
    const all = [...changes, ...notes].sort((a, b) => b.at_ns - a.at_ns).slice(0, SHOWN);
    this.list.replaceChildren(...all.map(({ element }) => element));
  }
}

function tag({ begun, taken_back_at_ns }: Version): Node[] {
  const back = taken_back_at_ns !== undefined;
  if (begun && !back) return [];
  const text = back ? `taken back at ${(taken_back_at_ns / 1e9).toFixed(1)} s` : "to come";
  return [el("span", { class: "tag" }, text)];
}

function entry(at_ns: number, inside: (Node | string)[]): HTMLElement {
  return el("li", {}, el("time", {}, `${(at_ns / 1e9).toFixed(1)} s`), el("span", {}, ...inside));
}

/** Names of settings in the log. */
const NAMES: Record<string, string> = {
  "rate.bps": "rate",
  "delay.mean": "delay",
  "delay.sd": "jitter",
  "loss.p": "loss",
  "queue.time": "queue",
  "queue.bytes": "queue",
};
/** Parts in the order in which a frame passes them, which is that of the sliders. */
const PARTS = ["rate", "delay", "loss", "queue"];
/** Settings that are not shown if other settings of their part are. */
const MINOR = new Set(["dist", "model", "kind", "half_life"]);

/** Describes the changes of a version briefly. Links with the same changes are listed together. */
export function said(version: Version): string {
  const links = new Map<string, [path: string, value: unknown][]>();
  for (const [path, value] of Object.entries(version.changes)) {
    const [, link = "", ...keys] = path.split(".");
    links.set(link, [...(links.get(link) ?? []), [keys.join("."), value]]);
  }
  const alike = new Map<string, string[]>();
  for (const [link, changes] of links) {
    const text = few(changes);
    alike.set(text, [...(alike.get(text) ?? []), link]);
  }
  if (alike.size === 0) return version.version === 1 ? "the settings of the start" : "no change";
  const told = [...alike].map(([text, of]) => `${of.sort(upFirst).join(" and ")}: ${text}`);
  return told.sort(upFirst).join("; ");
}

function upFirst(a: string, b: string): number {
  return Number(b.startsWith("up")) - Number(a.startsWith("up"));
}

function few(changes: [path: string, value: unknown][]): string {
  const part = (path: string) => path.split(".")[0] ?? "";
  const place = (path: string) => [...PARTS, part(path)].indexOf(part(path));
  changes.sort(([a], [b]) => place(a) - place(b));
  const telling = changes.filter(([path, value]) => value !== null && !MINOR.has(path.split(".")[1] ?? ""));
  const told = new Set(telling.map(([path]) => part(path)));
  // A part with a shown value needs no mention of the values that this value replaced.
  const rest = changes.filter(([path]) => !told.has(part(path)));
  const gone = new Set(rest.filter(([, value]) => value === null).map(([path]) => part(path)));
  const words = telling.map(([path, value]) => `${NAMES[path] ?? path} ${shown(value)}`);
  for (const [path, value] of rest) if (value !== null) words.push(`${path} ${shown(value)}`);
  for (const name of gone) words.push(`no ${name}`);
  return words.join(", ");
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
