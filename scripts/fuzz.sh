#!/usr/bin/env bash
# Fuzzes each target for a bounded time and number of runs: fuzz.sh SECONDS RUNS
# No sanitizer (-s none), so that the stable toolchain suffices: the targets are safe Rust, and
# detect panics and wrong answers. FUZZ_SEED is the seed of the random inputs (0: another one each
# time), so that CI gives the same result for the same sources.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

if [ ! -d fuzz ]; then
    echo "fuzz: there are no targets" >&2
    exit 1
fi
command -v cargo-fuzz > /dev/null || cargo install -q cargo-fuzz --locked

if ! cargo metadata -q --locked --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null; then
    echo "fuzz: fuzz/Cargo.lock is older than the crates: cargo update -w --manifest-path fuzz/Cargo.toml" >&2
    exit 1
fi
for target in $(cargo fuzz list); do
    echo "fuzz: $target"
    log=$(mktemp)
    if ! cargo fuzz run -s none "$target" -- \
        -runs="$2" -max_total_time="$1" -seed="${FUZZ_SEED:-0}" -print_final_stats=1 > "$log" 2>&1; then
        tail -n 60 "$log"
        exit 1
    fi
    grep -E 'number_of_executed_units|^Done' "$log" || true
    rm -f "$log"
done
