import assert from "node:assert/strict";
import { test } from "node:test";
import type { RouterStatus } from "./api.ts";
import { interfaceRates, named, workerRates } from "./routing.ts";

function status(elapsed_ns: number, packets: number, dropped: number): RouterStatus {
  return {
    elapsed_ns,
    state: "forwarding",
    io: "xsk",
    fib: { v4: 3, v6: 2, neighbours: 1, generation: 1, resyncs: 0, overruns: 0, refused: 0 },
    interfaces: [
      {
        name: "e0",
        mode: "xsk",
        state: "forwarding",
        forwarded: { packets, bytes: packets * 100 },
        passed: { local: packets / 10 },
        dropped: { ttl: dropped },
        punted: {},
      },
    ],
    workers: [{ id: 0, frames: packets, busy_ns: packets * 1e6, held: 0, limited: {}, failed: 0 }],
    left_to_kernel: [],
  };
}

test("rates are those between two answers", () => {
  const [before, after] = [status(1e9, 100, 0), status(3e9, 300, 4)];
  assert.deepEqual(interfaceRates(before, after), [
    { name: "e0", bps: 80_000, pps: 100, passed_pps: 10, dropped_pps: 2 },
  ]);
  assert.deepEqual(workerRates(before, after), [{ id: 0, pps: 100, busy: 0.1 }]);
});

test("without an earlier answer of the same run there is no rate", () => {
  const now = status(1e9, 100, 0);
  const none = { name: "e0", bps: null, pps: null, passed_pps: null, dropped_pps: null };
  assert.deepEqual(interfaceRates(null, now), [none]);
  assert.deepEqual(interfaceRates(status(9e9, 100, 0), now), [none]);
  assert.deepEqual(workerRates(null, now), [{ id: 0, pps: null, busy: null }]);
});

test("counts are told with their causes", () => {
  assert.equal(named({ driver: 3, ttl: 1, none: 0 }), "3 driver, 1 ttl");
  assert.equal(named({}), "0");
});
