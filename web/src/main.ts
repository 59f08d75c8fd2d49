/** The page: it shows one run at a time, and changes it if it is an emulator. */

import "uplot/dist/uPlot.min.css";
import "./style.css";

import * as api from "./api.ts";
import { Card, presetButtons } from "./controls.ts";
import { el, found, say } from "./dom.ts";
import { Journal } from "./journal.ts";
import { between, Silence } from "./measure.ts";
import { Plots } from "./plots.ts";
import { RouterWatch } from "./router.ts";
import { Scripting } from "./scripting.ts";
import * as settings from "./settings.ts";

/** How often the page gets statistics. */
const PERIOD = "250ms";
/** The same for a run of many links, whose statistics are long. */
const SLOW_PERIOD = "2s";
const MANY = 100;
/** How often the page gets the lists of runs and versions, in ms. */
const LOOK_MS = 2000;
/** The text of the state if there is no run. */
const NOTHING = "nothing runs";
/** The most links that are shown. A filter selects them if there are more. */
const MOST = 8;

/** The run that is shown. */
interface Run {
  pid: number;
  name: string;
  config: api.Config;
  explained: api.Explained;
  versions: api.Version[];
  stats: api.Stats | null;
  shown: string[];
  cards: Map<string, Card>;
  silence: Silence;
  warned: boolean;
  unwatch: () => void;
}

const chooser = found<HTMLSelectElement>("run");
const linked = found<HTMLInputElement>("linked");
const filter = found<HTMLInputElement>("filter");
const [state, about, warning] = [found("state"), found("about"), found("warning")];
const plots = new Plots(found("plots"));
const journal = new Journal(found("log"));
const scripting = new Scripting({
  play: (text) => run && play(run, text),
  stop: () => {
    const of = run;
    if (of) perform(of, () => api.ask(of.pid, "stop-script"));
  },
});
let run: Run | null = null;
/** The router that is shown, instead of a run. */
let router: RouterWatch | null = null;
/** The run that the user chose last. It may not have answered yet. */
let chosen: number | null = null;
/** The last change. Changes are sent one after the other. */
let last: Promise<unknown> = Promise.resolve();

function toast(text: string): void {
  const place = found("toast");
  say(place, text);
  place.hidden = false;
  clearTimeout(Number(place.dataset.timer));
  place.dataset.timer = String(setTimeout(() => (place.hidden = true), 8000));
}

function complain(error: unknown): void {
  const text = error instanceof api.Fault ? error.text : `The gateway does not answer: ${String(error)}`;
  toast(text);
  if (run) journal.note(run.stats?.elapsed_ns ?? 0, text, true);
}

/** Shows another run, or none. */
async function choose(pid: number | null): Promise<void> {
  run?.unwatch();
  router?.close();
  [run, router] = [null, null];
  journal.clear();
  warn(null);
  found("links").replaceChildren();
  plots.show([]);
  document.body.classList.toggle("idle", pid === null);
  document.body.classList.remove("router");
  if (pid === null) {
    chosen = null;
    say(state, NOTHING);
    say(about, "Start one: slipring emulate -i netmap:eth1 -i netmap:eth2 --preset lte --name lab, or slipring route eth1 eth2");
    return;
  }
  chosen = pid;
  const hello = await api.ask<api.Hello>(pid, "hello");
  if (hello.program === "route") {
    if (chosen === pid) showRouter(hello);
    return;
  }
  const [config, explained, versions] = await held(pid);
  // The user chose another run meanwhile.
  if (chosen !== pid) return;
  const links = Object.keys(config.link ?? {}).length;
  const next: Run = {
    pid,
    name: hello.name ?? String(pid),
    config,
    explained,
    versions,
    stats: null,
    shown: [],
    cards: new Map(),
    silence: new Silence(),
    warned: false,
    unwatch: () => {},
  };
  run = next;
  const seed = hello.command.includes("--seed") ? "" : `, seed ${hello.seed}`;
  say(about, hello.command + seed);
  showVersions(next);
  next.unwatch = api.watch(pid, links > MANY ? SLOW_PERIOD : PERIOD, {
    stats: (stats) => run === next && look(next, stats),
    broken: () => run === next && say(state, "connection lost, trying again"),
    ended: () => run === next && ended(next),
  });
}

/** Shows a router, which is not changed here. */
function showRouter(hello: api.Hello): void {
  const name = hello.name ?? String(hello.pid);
  const next = new RouterWatch(hello.pid, name, {
    live: () => router === next && say(state, "live"),
    broken: () => router === next && say(state, "connection lost, trying again"),
    ended: () => {
      if (router !== next) return;
      say(state, "ended");
      warn(`${name} has ended.`);
    },
  });
  router = next;
  document.body.classList.add("router");
  say(about, hello.command);
}

function isToCome(version: api.Version): boolean {
  return !version.begun && version.taken_back_at_ns === undefined;
}

function showVersions(of: Run): void {
  journal.show(of.versions);
  scripting.show(of.versions.filter(isToCome).length);
}

function held(pid: number): Promise<[api.Config, api.Explained, api.Version[]]> {
  return Promise.all([
    api.ask<api.Config>(pid, "config"),
    api.ask<api.Explained>(pid, "explain"),
    api.ask<api.Version[]>(pid, "history"),
  ]);
}

function ended(of: Run): void {
  say(state, "ended");
  journal.note(of.stats?.elapsed_ns ?? 0, `${of.name} has ended`, true);
  warn(`${of.name} has ended.`);
  of.unwatch();
}

/** Takes the next statistics. */
function look(of: Run, stats: api.Stats): void {
  const before = of.stats;
  of.stats = stats;
  say(state, "live");
  const names = stats.links.map((link) => link.name);
  const wanted = names.filter((name) => name.includes(filter.value)).slice(0, MOST);
  found("filter-label").hidden = names.length <= MOST;
  if (wanted.join() !== of.shown.join()) lay(of, wanted);
  for (const link of stats.links) {
    of.cards.get(link.name)?.show(link, settings.setting(link, of.explained));
  }
  const begun = of.versions.filter((version) => isToCome(version) && version.at_ns <= stats.elapsed_ns);
  if (begun.length > 0) {
    for (const version of begun) version.begun = true;
    perform(of, async () => {});
  }
  const samples = before && between(before, stats);
  if (!samples) return;
  const now = new Map(stats.links.map((link) => [link.name, settings.setting(link, of.explained)]));
  const silence = of.silence.add(stats.elapsed_ns, samples, (name) => now.get(name)?.delay_ns ?? 0);
  warn(silence);
  if ((silence !== null) !== of.warned) {
    of.warned = silence !== null;
    journal.note(stats.elapsed_ns, silence ?? "Traffic passes again.", of.warned);
  }
  const shown = samples.filter((sample) => of.shown.includes(sample.name));
  plots.add(stats.elapsed_ns / 1e9, shown, shown.map((sample) => now.get(sample.name)!));
}

function warn(text: string | null): void {
  say(warning, text ?? "");
  warning.hidden = text === null;
}

/** Creates the controls and plots of these links. */
function lay(of: Run, wanted: string[]): void {
  of.shown = wanted;
  const links = of.stats!.links.filter((link) => wanted.includes(link.name));
  const wishes = {
    moved: (link: string, knob: settings.Knob, value: number | null) =>
      turn(of, link, (name, now) => settings.moved(of.config, name, now, knob, value)),
    typed: (link: string, knob: settings.Knob, text: string) =>
      turn(of, link, (name, now) => settings.typed(of.config, name, now, knob, text)),
  };
  of.cards = new Map(links.map((link, index) => [link.name, new Card(link, index, wishes)]));
  found("links").replaceChildren(...[...of.cards.values()].map((card) => card.element));
  plots.show(wanted);
}

/** Changes a link, and also all other shown links if the user has coupled them. */
function turn(
  of: Run,
  link: string,
  changes: (name: string, now: settings.Setting) => settings.Changes,
): void {
  const names = linked.checked ? of.shown : [link];
  const links = of.stats!.links.filter(({ name }) => names.includes(name));
  const all = links.map((each) => changes(each.name, settings.setting(each, of.explained)));
  set(of, Object.assign({}, ...all));
}

function set(of: Run, changes: settings.Changes): void {
  perform(of, async () => {
    await api.ask(of.pid, "set", { changes });
    scripting.changed(changes);
  });
}

/** Does something that changes the run, then shows the settings of the run. */
function perform(of: Run, act: () => Promise<unknown>): void {
  last = last
    .then(act)
    .catch(complain)
    .then(() => refresh(of))
    .catch(complain);
}

async function refresh(of: Run): Promise<void> {
  const [config, explained, versions] = await held(of.pid);
  Object.assign(of, { config, explained, versions });
  if (run !== of) return;
  showVersions(of);
  if (of.stats) {
    for (const link of of.stats.links) {
      of.cards.get(link.name)?.show(link, settings.setting(link, explained));
    }
  }
}

function undo(of: Run): void {
  const versions = of.versions;
  perform(of, async () => {
    // The run takes changes that were sent together back together.
    const { taken_back } = await api.ask<{ taken_back: number[] }>(of.pid, "undo");
    const taken = versions.filter((version) => taken_back.includes(version.version));
    const config = await api.ask<api.Config>(of.pid, "config");
    const changes: settings.Changes = Object.assign({}, ...taken.map((version) => version.changes));
    scripting.changed(settings.undone(config, changes));
  });
}

function play(of: Run, text: string): void {
  perform(of, async () => {
    const steps = await api.ask<unknown[]>(of.pid, "script", { text });
    journal.note(of.stats?.elapsed_ns ?? 0, `A script of ${steps.length} changes plays.`);
  });
}

/** Looks for runs that started or ended, and for changes by other programs. */
async function lookAround(): Promise<void> {
  const runs = await api.get<api.Running[]>("running");
  const label = ({ pid, names }: api.Running) => (names.length > 0 ? `${names.join(", ")} (${pid})` : String(pid));
  const before = [...chooser.options].map((option) => option.value + option.text).join();
  if (before !== runs.map((each) => String(each.pid) + label(each)).join()) {
    chooser.replaceChildren(...runs.map((each) => el("option", { value: each.pid }, label(each))));
    chooser.disabled = runs.length === 0;
  }
  const shown = run ?? router;
  const there = runs.some(({ pid }) => pid === shown?.pid);
  if (!there) {
    // A run that has ended stays on the page until it is started again or the user chooses another.
    const again = runs.find(({ names }) => shown !== null && names.includes(shown.name));
    const next = again ?? (runs.length === 1 || !shown ? runs[0] : undefined);
    if (next || (!shown && state.textContent !== NOTHING)) await choose(next?.pid ?? null);
  }
  chooser.value = String((run ?? router)?.pid ?? "");
  if (!run || !there) return;
  const of = run;
  const versions = await api.ask<api.Version[]>(of.pid, "history");
  const mark = (list: api.Version[]) => list.map(({ version, begun, taken_back_at_ns }) => `${version}${begun}${taken_back_at_ns}`).join();
  if (mark(versions) !== mark(of.versions)) perform(of, async () => {});
}

async function lookForEver(): Promise<void> {
  try {
    await lookAround();
  } catch (error) {
    if (error instanceof api.Fault && error.status === 401) {
      say(state, "no token");
      warn(error.text);
    } else if (!(error instanceof api.Fault)) {
      say(state, "the gateway does not answer");
    }
  }
  setTimeout(lookForEver, LOOK_MS);
}

async function start(): Promise<void> {
  // The token is in the cookie now, so it is removed from the address.
  if (location.search) history.replaceState(null, "", location.pathname);
  chooser.addEventListener("change", () => choose(Number(chooser.value)).catch(complain));
  found("undo").addEventListener("click", () => run && undo(run));
  const presets = await api.get<api.Preset[]>("presets").catch(() => []);
  const wanted = (preset: api.Preset) => run && set(run, settings.preset(run.shown, preset));
  found("presets").replaceChildren(...presetButtons(presets, found("preset-about"), wanted));
  await lookForEver();
}

void start();
