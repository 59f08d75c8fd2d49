/** The event log: every change with its version and time, and what the page noticed. */

import type { Version } from "./api.ts";
import { el } from "./dom.ts";

interface Note {
  at_ns: number;
  text: string;
  bad: boolean;
}

/** Entries that are shown at most. */
const SHOWN = 100;

export class Journal {
  private notes: Note[] = [];
  private versions: Version[] = [];

  constructor(private readonly list: HTMLElement) {}

  /** Forgets everything: another run is looked at. */
  clear(): void {
    this.notes = [];
    this.versions = [];
    this.draw();
  }

  /** What the page noticed at a time of the run. */
  note(at_ns: number, text: string, bad = false): void {
    this.notes = [...this.notes.slice(-SHOWN), { at_ns, text, bad }];
    this.draw();
  }

  /** The versions that the run knows of. */
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
        ...(version.begun ? [] : [el("span", { class: "tag" }, "to come")]),
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

function entry(at_ns: number, inside: (Node | string)[]): HTMLElement {
  return el("li", {}, el("time", {}, `${(at_ns / 1e9).toFixed(1)} s`), el("span", {}, ...inside));
}

/** The changes of a version in few words: those that links share stand once. */
export function said(version: Version): string {
  const links = new Map<string, string[]>();
  const parts = new Set<string>();
  for (const [path, value] of Object.entries(version.changes)) {
    if (value !== null) parts.add(part(path));
  }
  for (const [path, value] of Object.entries(version.changes)) {
    // What went because something else came needs no word.
    if (value === null && parts.has(part(path))) continue;
    const [, link = "", ...keys] = path.split(".");
    const what = value === null ? `${keys.join(".")} none` : `${keys.join(".")} ${shown(value)}`;
    links.set(what, [...(links.get(what) ?? []), link]);
  }
  if (links.size === 0) return version.version === 1 ? "the settings of the start" : "no change";
  return [...links].map(([what, of]) => `${what} (${of.join(", ")})`).join("; ");
}

function part(path: string): string {
  return path.split(".").slice(0, 3).join(".");
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
