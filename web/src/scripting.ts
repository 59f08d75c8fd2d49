/** The panel that records changes as a script, saves scripts, and plays them. */

import { el, found, say } from "./dom.ts";
import { Recorder } from "./recorder.ts";
import type { Changes } from "./settings.ts";

export interface ScriptWishes {
  play(text: string): void;
  /** Cancels the changes of the script that are still to come. */
  stop(): void;
}

export class Scripting {
  private readonly recorder = new Recorder();
  private readonly text = found("script");
  private readonly record = found<HTMLButtonElement>("record");
  private readonly download = found<HTMLButtonElement>("download");
  private readonly replay = found<HTMLButtonElement>("replay");
  private readonly stop = found<HTMLButtonElement>("stop");
  private to_come = 0;

  constructor(wishes: ScriptWishes) {
    this.record.addEventListener("click", () => {
      if (this.recorder.recording) this.recorder.stop();
      else this.recorder.start(performance.now());
      this.draw();
    });
    this.download.addEventListener("click", () => save(this.recorder.script()));
    this.replay.addEventListener("click", () => wishes.play(this.recorder.script()));
    this.stop.addEventListener("click", () => wishes.stop());
    const upload = found<HTMLInputElement>("upload");
    upload.addEventListener("change", async () => {
      const text = await upload.files?.[0]?.text();
      // Without this, choosing the same file once more causes no event.
      upload.value = "";
      if (text !== undefined) wishes.play(text);
    });
  }

  /** Takes a change that was made, and records it if the user wants that. */
  changed(changes: Changes): void {
    this.recorder.add(performance.now(), changes);
    this.draw();
  }

  /** Shows the number of changes of a script that are still to come. */
  show(to_come: number): void {
    this.to_come = to_come;
    this.draw();
  }

  private draw(): void {
    const { recording, empty } = this.recorder;
    say(this.text, this.recorder.script());
    this.text.hidden = empty;
    this.record.setAttribute("aria-pressed", String(recording));
    say(this.record, recording ? "Stop recording" : "Record");
    this.download.disabled = empty;
    this.replay.disabled = empty || recording;
    this.stop.disabled = this.to_come === 0;
    say(this.stop, this.to_come > 0 ? `Stop the script (${this.to_come} to come)` : "Stop the script");
  }
}

function save(text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  el("a", { href: url, download: "slipring-script.toml" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
