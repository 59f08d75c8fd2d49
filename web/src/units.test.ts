import assert from "node:assert/strict";
import { test } from "node:test";
import * as units from "./units.ts";

test("values are told with three digits and the unit that fits", () => {
  assert.equal(units.rate(12_345_678), "12.3 Mbit/s");
  assert.equal(units.rate(999), "999 bit/s");
  assert.equal(units.rate(0), "0 bit/s");
  assert.equal(units.time(1_500), "1.5 us");
  assert.equal(units.time(0), "0 ms");
  assert.equal(units.size(65_536), "64 KiB");
  assert.equal(units.share(0.0005), "0.05 %");
});

test("what is written has a unit in full and no exponent", () => {
  assert.equal(units.written.rate(12_500_000), "12.5Mbit");
  assert.equal(units.written.time(20e6), "20ms");
  assert.equal(units.written.time(0), "0ms");
  assert.equal(units.written.share(1e-6), "0.0001%");
  assert.equal(units.written.share(0.5), "50%");
});

const rates = new units.Scale(1e4, 1e11, "open");
const delays = new units.Scale(1e4, 2e9, "zero");

test("each step of a slider has a value of its own that leads back to it", () => {
  for (const scale of [rates, delays, new units.Scale(1e-6, 0.5, "zero")]) {
    for (let step = 0; step <= scale.last; step += 1) {
      assert.equal(scale.step(scale.value(step)), step);
      if (step > 0 && scale.value(step) !== null) assert.ok(scale.value(step)! > scale.value(step - 1)!);
    }
  }
});

test("the ends of a slider are zero and no limit", () => {
  assert.equal(rates.value(rates.last), null);
  assert.equal(rates.value(rates.last - 1), 1e11);
  assert.equal(delays.value(0), 0);
  assert.equal(delays.value(1), 1e4);
});

test("what a slider has not is shown at the nearest it has", () => {
  assert.equal(delays.value(delays.step(20.5e6)), 20e6);
  assert.equal(delays.value(delays.step(60e9)), 2e9);
  assert.equal(delays.value(delays.step(1)), 1e4);
  assert.equal(rates.value(rates.step(1)), 1e4);
  assert.equal(rates.value(rates.step(1e15)), 1e11);
});
