import assert from "node:assert/strict";
import { test } from "node:test";
import type { Config, Part, Preset } from "./api.ts";
import { Recorder, toml } from "./recorder.ts";
import { moved, preset, type Setting, typed, undone } from "./settings.ts";

const now: Setting = { rate_bps: 1e7, delay_ns: 20e6, jitter_ns: 0, loss: 0, queue_ns: 1e8 };

function config(parts: Record<string, Part | string>): Config {
  return { link: { up: parts } };
}

test("a moved knob changes its own part and keeps what else that says", () => {
  const plain = config({ rate: { bps: "10Mbit/s", overhead: 24 }, delay: { mean: "20ms" } });
  assert.deepEqual(moved(plain, "up", now, "rate_bps", 2e7), { "link.up.rate.bps": "20Mbit" });
  assert.deepEqual(moved(plain, "up", now, "rate_bps", null), { "link.up.rate": "none" });
  assert.deepEqual(moved(plain, "up", now, "delay_ns", 4e7), { "link.up.delay": "40ms" });
  assert.deepEqual(moved(plain, "up", now, "loss", 0.001), { "link.up.loss": "0.1%" });
  assert.deepEqual(moved(plain, "up", now, "loss", 0), { "link.up.loss": "none" });
  assert.deepEqual(moved({}, "up", now, "rate_bps", 2e7), { "link.up.rate": "20Mbit" });
});

test("jitter keeps the delay and its half-life", () => {
  const smooth = config({ delay: { dist: "normal", mean: "20ms", sd: "1ms", half_life: "9ms" } });
  const change = moved(smooth, "up", now, "jitter_ns", 3e6);
  assert.deepEqual(change, { "link.up.delay": "normal(20ms, 3ms, half_life=9ms)" });
  const wide = moved(smooth, "up", now, "jitter_ns", 3e7);
  assert.deepEqual(wide, { "link.up.delay": "gamma(20ms, 30ms, half_life=9ms)" });
  const other = config({ delay: { dist: "gamma", mean: "20ms", sd: "1ms" } });
  assert.deepEqual(moved(other, "up", now, "delay_ns", 3e7), { "link.up.delay.mean": "30ms" });
});

test("a queue that is managed keeps its discipline", () => {
  const codel = config({ queue: { kind: "codel", target: "5ms" } });
  assert.deepEqual(moved(codel, "up", now, "queue_ns", 5e7), { "link.up.queue.time": "50ms" });
  const change = moved({}, "up", now, "queue_ns", 5e7);
  assert.deepEqual(change, { "link.up.queue": "droptail(time=50ms)" });
});

test("what is typed goes as it is, without the form that is shown", () => {
  const plain = config({ rate: { bps: "10Mbit/s" } });
  assert.deepEqual(typed(plain, "up", now, "rate_bps", "12.5 Mbit/s"), { "link.up.rate.bps": "12.5Mbit" });
  assert.deepEqual(typed(plain, "up", now, "rate_bps", "no limit"), { "link.up.rate": "none" });
  assert.deepEqual(typed(plain, "up", now, "queue_ns", "64 KiB"), { "link.up.queue": "droptail(64KiB)" });
  assert.deepEqual(typed(plain, "up", now, "loss", "0.1 %"), { "link.up.loss": "0.1%" });
  assert.deepEqual(typed(plain, "up", now, "delay_ns", "much"), { "link.up.delay": "much" });
});

test("a preset sets up and down, and any other pair in its order", () => {
  const slow: Preset = { name: "", title: "", about: "", up: { rate: "1Mbit" }, down: { rate: "2Mbit" } };
  assert.deepEqual(preset(["down", "up"], slow), { "link.down.rate": "2Mbit", "link.up.rate": "1Mbit" });
  assert.deepEqual(preset(["a", "b"], slow), { "link.a.rate": "1Mbit", "link.b.rate": "2Mbit" });
  assert.deepEqual(preset(["a"], slow), { "link.a.rate": "2Mbit" });
});

test("an undo is recorded as the parts that hold again", () => {
  const back = config({ delay: { mean: "20ms" }, loss: {} });
  const taken = { "link.up.delay.sd": "3ms", "link.up.loss.p": "1%", "link.up.queue.time": null };
  assert.deepEqual(undone(back, taken), {
    "link.up.delay": { mean: "20ms" },
    "link.up.loss": "none",
    "link.up.queue": "none",
  });
});

test("a script has each change at its time from the start of the recording", () => {
  const recorder = new Recorder();
  recorder.add(5, { "link.up.delay": "1ms" });
  assert.ok(recorder.empty, "nothing is recorded before the start");
  recorder.start(1000);
  recorder.add(1250.4, { "link.up.rate.bps": "20Mbit", "link.up.delay": { mean: "20ms" } });
  recorder.stop();
  recorder.add(2000, { "link.up.delay": "1ms" });
  assert.equal(
    recorder.script(),
    '[[at]]\nt = "250ms"\nset = { "link.up.rate.bps" = "20Mbit", "link.up.delay" = { "mean" = "20ms" } }\n',
  );
});

test("any text is one string of TOML", () => {
  assert.equal(toml('a"b\\c\n\u007f'), '"a\\"b\\\\c\\n\\u007f"');
  assert.equal(toml([1, true, "x"]), '[1, true, "x"]');
});
