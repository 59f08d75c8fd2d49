/** Changes and their times, as a script for `slipring emulate ctl script`. */

import type { Changes } from "./settings.ts";

export class Recorder {
  private start_ms: number | null = null;
  private steps: { t_ms: number; changes: Changes }[] = [];

  get recording(): boolean {
    return this.start_ms !== null;
  }

  get empty(): boolean {
    return this.steps.length === 0;
  }

  /** Discards the recorded changes, and records from now on. */
  start(now_ms: number): void {
    this.start_ms = now_ms;
    this.steps = [];
  }

  stop(): void {
    this.start_ms = null;
  }

  /** Adds a change, if it is recording. */
  add(now_ms: number, changes: Changes): void {
    if (this.start_ms === null) return;
    this.steps.push({ t_ms: Math.max(0, Math.round(now_ms - this.start_ms)), changes });
  }

  /** Returns the script so far. */
  script(): string {
    return this.steps
      .map(({ t_ms, changes }) => {
        const entries = Object.entries(changes);
        const set = entries.map(([path, value]) => `${toml(path)} = ${toml(value)}`).join(", ");
        return `[[at]]\nt = "${t_ms}ms"\nset = { ${set} }\n`;
      })
      .join("\n");
  }
}

/** A value on one line of TOML. Its basic strings have all escapes that JSON has. */
export function toml(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(toml).join(", ")}]`;
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).map(([key, value]) => `${toml(key)} = ${toml(value)}`);
    return entries.length === 0 ? "{}" : `{ ${entries.join(", ")} }`;
  }
  // DEL is a control character in TOML, but not in JSON.
  return JSON.stringify(value).replaceAll("\u007f", "\\u007f");
}
