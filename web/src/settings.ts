/** Settings of a link, and the changes that set other ones. */

import type { Config, Explained, LinkStats, Part, Preset } from "./api.ts";
import * as units from "./units.ts";

/** Paths and values, as the request `set` takes them. */
export type Changes = Record<string, unknown>;

/** The five values that sliders set. Null means no limit. */
export interface Setting {
  rate_bps: number | null;
  delay_ns: number;
  jitter_ns: number;
  loss: number;
  queue_ns: number | null;
}

export type Knob = keyof Setting;

/** The current settings of a link. A model that no slider describes is shown by its mean. */
export function setting(link: LinkStats, explained: Explained): Setting {
  const figures = explained.links[link.name];
  const rate_bps = link.asked.rate_bps ?? figures?.rate.mean_bits_per_sec ?? null;
  const queue = figures?.queue;
  const bytes_ns = queue?.bytes != null && rate_bps ? (queue.bytes * 8e9) / rate_bps : null;
  const limits = [queue?.delay_ns ?? null, bytes_ns].filter((limit) => limit !== null);
  return {
    rate_bps,
    delay_ns: figures?.delay.mean_ns ?? 0,
    jitter_ns: figures?.delay.sd_ns ?? 0,
    loss: link.asked.loss_share ?? 0,
    queue_ns: limits.length > 0 ? Math.min(...limits) : null,
  };
}

function part(config: Config, link: string, name: string): Part {
  const found = config.link?.[link]?.[name];
  return typeof found === "object" ? found : {};
}

/** The changes that set one slider of a link to a value. Other settings of the part stay. */
export function moved(
  config: Config,
  link: string,
  now: Setting,
  knob: Knob,
  value: number | null,
): Changes {
  const at = `link.${link}`;
  const next = { ...now, [knob]: value };
  switch (knob) {
    case "rate_bps": {
      if (value === null) return { [`${at}.rate`]: "none" };
      const path = "bps" in part(config, link, "rate") ? `${at}.rate.bps` : `${at}.rate`;
      return { [path]: units.written.rate(value) };
    }
    case "delay_ns":
    case "jitter_ns":
      return delay(part(config, link, "delay"), `${at}.delay`, next, knob);
    case "loss":
      return { [`${at}.loss`]: value ? units.written.share(value) : "none" };
    case "queue_ns": {
      const queue = part(config, link, "queue");
      const plain = (queue.kind ?? "droptail") === "droptail" && !("ecn" in queue);
      if (value === null) return { [`${at}.queue`]: "none" };
      if (plain) return { [`${at}.queue`]: `droptail(time=${units.written.time(value)})` };
      return { [`${at}.queue.time`]: units.written.time(value) };
    }
  }
}

function delay(part: Part, at: string, next: Setting, knob: Knob): Changes {
  const { delay_ns, jitter_ns } = next;
  const [mean, sd] = [units.written.time(delay_ns), units.written.time(jitter_ns)];
  const key = knob === "delay_ns" ? "mean" : "sd";
  const other = part.dist !== undefined && part.dist !== "normal" && part.dist !== "const";
  if (other && key in part) return { [`${at}.${key}`]: key === "mean" ? mean : sd };
  if (jitter_ns < 1) return { [at]: mean };
  const half_life = typeof part.half_life === "string" ? part.half_life : "50ms";
  // A normal distribution with a wider deviation would miss its mean, as negative delays are not
  // drawn.
  const law = jitter_ns > delay_ns / 2 ? "gamma" : "normal";
  return { [at]: `${law}(${mean}, ${sd}, half_life=${half_life})` };
}

/** The changes for a typed value. They are not checked here: the emulator answers with an error. */
export function typed(config: Config, link: string, now: Setting, knob: Knob, text: string): Changes {
  const at = `link.${link}`;
  const value = text.replace(/\s+/g, "").replace("/s", "");
  const none = value === "" || value === "none" || value === "nolimit";
  switch (knob) {
    case "rate_bps": {
      const path = "bps" in part(config, link, "rate") && !none ? `${at}.rate.bps` : `${at}.rate`;
      return { [path]: none ? "none" : value };
    }
    case "delay_ns":
      if (now.jitter_ns < 1) return { [`${at}.delay`]: none ? "none" : value };
      return { [`${at}.delay.mean`]: none ? "0ms" : value };
    case "jitter_ns": {
      if (none) return moved(config, link, now, knob, 0);
      const { half_life = "50ms" } = part(config, link, "delay");
      const mean = units.written.time(now.delay_ns);
      return { [`${at}.delay`]: `normal(${mean}, ${value}, half_life=${String(half_life)})` };
    }
    case "loss":
      return { [`${at}.loss`]: none ? "none" : value };
    case "queue_ns": {
      const bytes = /B$/.test(value);
      const queue = none ? "none" : bytes ? `droptail(${value})` : `droptail(time=${value})`;
      return { [`${at}.queue`]: queue };
    }
  }
}

/**
 * The changes that apply a preset. Of a pair of links, the link up (or the first) gets its one
 * direction, and the other link its other. If there are more links, those without the name up get
 * the settings of down.
 */
export function preset(links: string[], preset: Preset): Changes {
  const up = links.includes("up") ? "up" : links.length === 2 ? links[0] : undefined;
  const changes: Changes = {};
  for (const link of links) {
    for (const [name, value] of Object.entries(link === up ? preset.up : preset.down)) {
      changes[`link.${link}.${name}`] = value;
    }
  }
  return changes;
}

/**
 * The changes that set the run to `config`, which holds after a version with the changes `taken`
 * was taken back. They set whole parts, because there is no way to unset a value within a part.
 */
export function undone(config: Config, taken: Changes): Changes {
  const changes: Changes = {};
  for (const path of Object.keys(taken)) {
    const [head, link, name] = path.split(".");
    if (head !== "link" || !link || !name) continue;
    const value = config.link?.[link]?.[name];
    const empty = value === undefined || (typeof value === "object" && Object.keys(value).length === 0);
    changes[`link.${link}.${name}`] = empty ? "none" : value;
  }
  return changes;
}
