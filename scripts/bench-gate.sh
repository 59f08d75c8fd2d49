#!/usr/bin/env bash
# Counts the instructions of the hot loops under valgrind: every bench target called `gate`.
# The limits are in the benches themselves, so the check needs no earlier results.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

gates=$(grep -l '^name = "gate"' crates/*/Cargo.toml || true)
if [ -z "$gates" ]; then
    echo "bench-gate: no crate has a bench called gate" >&2
    exit 1
fi

# The runner must have the same version as the crate that the benches use.
version=$(awk '/^name = "gungraun"$/ { getline; gsub(/[^0-9.]/, ""); print }' Cargo.lock)
if [ "$(gungraun-runner --version 2> /dev/null | grep -oE '[0-9.]+$')" != "$version" ]; then
    cargo install -q gungraun-runner --version "$version" --locked
fi

for gate in $gates; do
    cargo bench -q --manifest-path "$gate" --all-features --bench gate
done
