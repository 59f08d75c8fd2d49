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
# Fuzzes one target; prints its figures, or the end of its log if it fails.
fuzz() {
    local log
    log=$(mktemp)
    if cargo fuzz run -s none "$1" -- \
        -runs="$RUNS" -max_total_time="$SECONDS_EACH" -seed="${FUZZ_SEED:-0}" -print_final_stats=1 > "$log" 2>&1; then
        echo "fuzz: $1: $(grep -E '^Done' "$log")"
        rm -f "$log"
    else
        # The lines are printed in one piece, because several targets may fail at once.
        flock "$OUTPUT_LOCK" sh -c 'echo "fuzz: $1 FAILED"; tail -n 60 "$2"' sh "$1" "$log"
        return 1
    fi
}
export -f fuzz
OUTPUT_LOCK=$(mktemp)
trap 'rm -f "$OUTPUT_LOCK"' EXIT
export OUTPUT_LOCK SECONDS_EACH=$1 RUNS=$2
targets=$(cargo fuzz list)
[ -n "$targets" ] || { echo "fuzz: there are no targets" >&2; exit 1; }
cargo fuzz build -s none > "$OUTPUT_LOCK" 2>&1 || { tail -n 60 "$OUTPUT_LOCK"; exit 1; }
# A target keeps one processor busy, so as many targets run at once as there are processors.
printf '%s\n' "$targets" | xargs -P "$(nproc)" -I TARGET bash -c 'fuzz TARGET'
