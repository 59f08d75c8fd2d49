/**
 * Presets and sliders. They report what the user asks for, and then show the settings of the run.
 */

import type { LinkStats, Preset } from "./api.ts";
import { el, say } from "./dom.ts";
import { swatch } from "./plots.ts";
import type { Knob, Setting } from "./settings.ts";
import * as units from "./units.ts";

interface KnobKind {
  knob: Knob;
  title: string;
  scale: units.Scale;
  show(value: number): string;
  none: string;
}

const KNOBS: KnobKind[] = [
  { knob: "rate_bps", title: "Rate", scale: new units.Scale(1e4, 1e11, "open"), show: units.rate, none: "no limit" },
  { knob: "delay_ns", title: "Delay", scale: new units.Scale(1e4, 2e9, "zero"), show: units.time, none: "" },
  { knob: "jitter_ns", title: "Jitter", scale: new units.Scale(1e4, 5e8, "zero"), show: units.time, none: "" },
  { knob: "loss", title: "Loss", scale: new units.Scale(1e-6, 0.5, "zero"), show: units.share, none: "" },
  { knob: "queue_ns", title: "Queue", scale: new units.Scale(1e5, 5e9, "open"), show: units.time, none: "no limit" },
];

export interface Wishes {
  /** The user moved a slider to a value. */
  moved(link: string, knob: Knob, value: number | null): void;
  /** The user typed a value. */
  typed(link: string, knob: Knob, text: string): void;
}

/** The sliders of one link. */
export class Card {
  readonly element: HTMLElement;
  private readonly rows: Row[];
  private readonly model = el("p", { class: "hint model" });

  constructor(link: LinkStats, index: number, wishes: Wishes) {
    this.rows = KNOBS.map((kind) => new Row(link.name, kind, wishes));
    const way = el("span", { class: "way" }, `${link.from} → ${link.to}`);
    this.element = el(
      "fieldset",
      { "data-link": link.name },
      el("legend", {}, swatch(index), link.name, " ", way),
      ...this.rows.map((row) => row.element),
      this.model,
    );
  }

  show(link: LinkStats, setting: Setting): void {
    for (const row of this.rows) row.show(setting[row.knob]);
    const { rate, delay, loss, queue } = link.asked;
    say(this.model, `${rate}; ${delay}; loss ${loss}; ${queue}`);
  }
}

class Row {
  readonly element: HTMLElement;
  readonly knob: Knob;
  private readonly slider: HTMLInputElement;
  private readonly text: HTMLInputElement;
  /** Whether the user is moving the slider. It does not show the setting of the run meanwhile. */
  private held = false;

  constructor(
    link: string,
    private readonly kind: KnobKind,
    wishes: Wishes,
  ) {
    this.knob = kind.knob;
    const id = `knob-${link}-${kind.knob}`;
    this.slider = el("input", { type: "range", id, min: 0, max: kind.scale.last, step: 1, "data-knob": kind.knob });
    this.text = el("input", {
      type: "text",
      "aria-label": `${kind.title} of ${link}, with its unit`,
      "data-value": kind.knob,
      autocomplete: "off",
      spellcheck: "false",
    });
    this.element = el("div", { class: "row" }, el("label", { for: id }, kind.title), this.slider, this.text);
    this.slider.addEventListener("input", () => {
      this.held = true;
      this.say(kind.scale.value(this.slider.valueAsNumber));
    });
    this.slider.addEventListener("change", () => {
      this.held = false;
      wishes.moved(link, kind.knob, kind.scale.value(this.slider.valueAsNumber));
    });
    this.text.addEventListener("change", () => wishes.typed(link, kind.knob, this.text.value));
  }

  show(value: number | null): void {
    if (this.held) return;
    this.slider.valueAsNumber = this.kind.scale.step(value);
    this.say(value);
  }

  private say(value: number | null): void {
    const text = value === null ? this.kind.none : this.kind.show(value);
    this.slider.setAttribute("aria-valuetext", text);
    // Does not overwrite text that the user is typing.
    if (document.activeElement !== this.text) this.text.value = text;
  }
}

/** Makes a button for each preset. */
export function presetButtons(
  presets: Preset[],
  about: HTMLElement,
  wanted: (preset: Preset) => void,
): HTMLElement[] {
  const hint = about.textContent ?? "";
  return presets.map((preset) => {
    const button = el("button", { type: "button", "data-preset": preset.name, title: preset.about }, preset.title);
    button.addEventListener("click", () => wanted(preset));
    for (const [event, text] of [["pointerenter", preset.about], ["focus", preset.about], ["pointerleave", hint], ["blur", hint]] as const) {
      button.addEventListener(event, () => say(about, text));
    }
    return button;
  });
}
