/** Changes and their times, as a script that `slipring emulate ctl script` takes. */

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

  /** Forgets what there was, and records from now on. */
  start(now_ms: number): void {
    this.start_ms = now_ms;
    this.steps = [];
  }

  stop(): void {
    this.start_ms = null;
  }

  /** Takes a change, if it is recording. */
  add(now_ms: number, changes: Changes): void {
    if (this.start_ms === null) return;
    this.steps.push({ t_ms: Math.max(0, Math.round(now_ms - this.start_ms)), changes });
  }

  /** The script so far. */
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

/** A value in one line of TOML. Its basic strings know all escapes that JSON writes. */
export function toml(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(toml).join(", ")}]`;
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).map(([key, value]) => `${toml(key)} = ${toml(value)}`);
    return entries.length === 0 ? "{}" : `{ ${entries.join(", ")} }`;
  }
  // DEL is a control character for TOML only.
  return JSON.stringify(value).replaceAll("\u007f", "\\u007f");
}
