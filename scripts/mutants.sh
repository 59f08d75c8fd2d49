#!/usr/bin/env bash
# Changes the code in one place at a time, and counts the changes that the tests of its crate detect:
# mutants.sh [CRATE...], such as classify
#
# All mutants of a crate take hours. SAMPLE=K/N tests every N-th mutant, from the K-th on. The lists of
# caught and missed mutants are in target/mutants.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CRATES="classify switch link model ipfw dummynet nat filter wire ring"
out=${CARGO_TARGET_DIR:-target}/mutants

export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
command -v cargo-mutants > /dev/null || cargo install -q cargo-mutants --locked
sample=()
[ -z "${SAMPLE:-}" ] || sample=(--shard "$SAMPLE" --sharding round-robin)
# Writing debug information takes longer than compiling.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0

for crate in ${*:-$CRATES}; do
    mkdir -p "$out/$crate"
    status=0
    cargo mutants -p "slipring-$crate" --minimum-test-timeout 60 --no-times -o "$out/$crate" \
        ${sample[@]+"${sample[@]}"} || status=$?
    # Status 2: some mutants were missed. 3: tests of some did not end. The table shows the numbers.
    case $status in 0 | 2 | 3) ;; *) exit $status ;; esac
done

printf '\n%-10s %7s %7s %9s\n' crate caught missed share
for crate in ${*:-$CRATES}; do
    lists=$out/$crate/mutants.out
    # A mutant is caught also if a test does not end.
    caught=$(cat "$lists/caught.txt" "$lists/timeout.txt" | wc -l)
    missed=$(wc -l < "$lists/missed.txt")
    all=$((caught + missed))
    printf '%-10s %7d %7d %7d %%\n' "$crate" "$caught" "$missed" $((all == 0 ? 100 : 100 * caught / all))
done
