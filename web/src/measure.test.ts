import assert from "node:assert/strict";
import { test } from "node:test";
import type { LinkStats, Stats } from "./api.ts";
import { between, Silence } from "./measure.ts";

function link(name: string, packets: number, lost: number, mean_ns: number): LinkStats {
  const amount = (packets: number) => ({ packets, bytes: packets * 1000 });
  return {
    name,
    from: "left",
    to: "right",
    asked: { rate: "", delay: "", loss: "", queue: "" },
    input: amount(packets),
    made: amount(0),
    output: amount(packets - lost),
    lost: lost > 0 ? { loss: amount(lost) } : {},
    ...(packets > lost && { delay_ns: { count: packets - lost, mean: mean_ns } }),
  };
}

function stats(elapsed_ns: number, ...links: LinkStats[]): Stats {
  return { elapsed_ns, links };
}

test("figures are those between two looks, not those since the start", () => {
  const before = stats(1e9, link("up", 100, 0, 10e6));
  const after = stats(2e9, link("up", 300, 50, 22e6));
  const [up] = between(before, after)!;
  assert.equal(up!.rate_bps, 150 * 8000);
  assert.equal(up!.loss, 0.25);
  // (250 * 22 - 100 * 10) / 150
  assert.equal(Math.round(up!.delay_ns! / 1e6), 30);
});

test("where nothing came nothing was measured", () => {
  const same = link("up", 100, 0, 10e6);
  const [up] = between(stats(1e9, same), stats(2e9, same))!;
  assert.deepEqual([up!.rate_bps, up!.delay_ns, up!.loss], [0, null, null]);
});

test("looks at different runs have nothing between them", () => {
  const much = stats(5e9, link("up", 100, 0, 1));
  assert.equal(between(much, stats(1e9, link("up", 1, 0, 1))), null);
  assert.equal(between(stats(1e9, link("up", 100, 0, 1)), stats(2e9, link("up", 1, 0, 1))), null);
  assert.equal(between(stats(1e9), stats(2e9, link("up", 1, 0, 1))), null);
});

function sample(name: string, arrived: number, left: number) {
  return { name, rate_bps: 0, delay_ns: null, queue_bytes: null, loss: null, arrived, left };
}

test("silence is told after three seconds and ends with the first frame", () => {
  const silence = new Silence();
  const quiet = [sample("up", 0, 0), sample("down", 0, 0)];
  assert.equal(silence.add(0, quiet, () => 0), null);
  assert.equal(silence.add(2.9e9, quiet, () => 0), null);
  assert.match(silence.add(3e9, quiet, () => 0)!, /No traffic passes: .* up and down for 3 s/);
  assert.equal(silence.add(3.3e9, [sample("up", 1, 1), quiet[1]!], () => 0), null);
});

test("frames that arrive and never leave are told once they should have", () => {
  const silence = new Silence();
  const stuck = [sample("up", 5, 0)];
  assert.equal(silence.add(0, stuck, () => 2e9), null);
  assert.equal(silence.add(4.9e9, stuck, () => 2e9), null);
  assert.match(silence.add(5e9, stuck, () => 2e9)!, /Nothing gets through: frames arrive on up/);
});
