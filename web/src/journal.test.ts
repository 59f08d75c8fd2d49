import assert from "node:assert/strict";
import { test } from "node:test";
import { said } from "./journal.ts";

const version = (changes: Record<string, unknown>, number = 2) => ({ version: number, at_ns: 0, begun: true, changes });

test("links with the same changes share them", () => {
  const changes = { "link.up.rate.bps": "1Mbit/s", "link.down.rate.bps": "1Mbit/s" };
  assert.equal(said(version(changes)), "up and down: rate 1Mbit/s");
  const last = { "link.down.queue.time": "1s", "link.down.delay.mean": "2ms", "link.down.police.bps": "1Mbit" };
  assert.equal(said(version(last)), "down: delay 2ms, queue 1s, police.bps 1Mbit");
  const other = { ...changes, "link.up.delay.mean": "2ms", "link.up.delay.dist": "normal" };
  assert.equal(said(version(other)), "up: rate 1Mbit/s, delay 2ms; down: rate 1Mbit/s");
});

test("what went because something else came needs no word, what only went does", () => {
  const changes = { "link.up.delay.sd": null, "link.up.delay.mean": "2ms", "link.up.queue.time": null, "link.up.queue.kind": null };
  assert.equal(said(version(changes)), "up: delay 2ms, no queue");
});

test("the first version is the start", () => {
  assert.equal(said(version({}, 1)), "the settings of the start");
});
