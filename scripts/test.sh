#!/usr/bin/env bash
# Runs the tests and counts their results: test.sh [CARGO-TEST-FLAGS], such as -p slipring-ring
#
# A test that cannot run on this machine prints a line `skipped: reason` and returns. The harness
# counts it as passed, so this script counts the lines. With SLIPRING_NO_SKIP=1, a skip whose reason
# matches no line of .ci/may-skip is a failure: the machine is expected to run all other tests.
set -uo pipefail
cd "$(dirname "$0")/.."

export PATH="$PATH:/usr/sbin:/sbin"
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
log=$target/test.log
# Read by the test harness of each binary, and by the script that computes the times of tests. Most tests wait
# for other programs most of the time, so two of them can share a processor.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
slowest=$target/test.slowest
: > "$slowest"
# What the failed tests printed. It is shown again at the end, where a person, or the reader of a
# long log of CI, looks first.
failures=$target/test.failures
times=(cat)
[ -z "$(command -v python3)" ] || times=(scripts/test-times.py "$slowest" "$RUST_TEST_THREADS")

# The log has the whole output. The terminal shows only summary lines, errors and failures.
cargo test --no-fail-fast "${@:---workspace}" -- --show-output 2>&1 | "${times[@]}" | tee "$log" | awk '
    /^failures:$/ { failing = 1 }
    /^successes:$/ { failing = 0 }
    failing || /^ +(Running|Doc-tests|Compiling slipring)/ || /^(error|warning)/ || /skipped: / ||
        /^test .*FAILED$/ || /panicked at/ || /has been running for over/ { print }
    /^test result:/ { if (!failing) print; failing = 0 }
    { fflush() }'
status=${PIPESTATUS[0]}

sum() { grep -oE "[0-9]+ $1" "$log.results" | awk '{ n += $1 } END { print n + 0 }'; }
grep '^test result:' "$log" > "$log.results"
skips=$(grep -oE 'skipped: .*' "$log" | sort -u)
skipped=$(grep -cE 'skipped: ' "$log")
passed=$(($(sum passed) - skipped))
failed=$(sum failed)

awk '/^ +(Running|Doc-tests)/ { binary = $0 }
    /^failures:$/ { if (!failing) print binary; failing = 1 }
    /^(test result:|successes:$)/ { failing = 0 }
    failing' "$log" | tail -n 200 > "$failures"
if [ "$skipped" -gt 0 ]; then
    printf '\n%s\n' "$skips"
    if [ "${SLIPRING_NO_SKIP:-0}" = 1 ]; then
        allowed=$(grep -vE '^(#|$)' .ci/may-skip)
        wrong=$(grep -vE -f <(printf '%s\n' "${allowed:-^$}") <<< "$skips")
        if [ -n "$wrong" ]; then
            # Where each of these lines was printed: `---- TEST stdout ----` is the head of a test's output.
            places=$(awk 'NR == FNR { wrong[$0]; next }
                /^ +(Running|Doc-tests)/ { test = $0 } /^---- .* stdout ----$/ { test = $2 }
                (at = index($0, "skipped: ")) && substr($0, at) in wrong { print test ": " substr($0, at) }
                ' <(printf '%s\n' "$wrong") "$log")
            printf 'These can run here and must not skip:\n%s\n' "$places" | tee -a "$failures"
            failed=$((failed + $(wc -l <<< "$wrong")))
            skipped=$((skipped - $(wc -l <<< "$wrong")))
            status=1
        fi
    fi
fi
if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
    { echo "cargo test did not get through; the whole output is in $log:"; grep -E -A 5 '^error' "$log" | tail -n 50
    } | tee -a "$failures"
    failed=1
fi
# A binary that crashed has no list of failed tests, but cargo names it at its end.
awk '/^error: [0-9]+ targets? failed/ { listed = 1 } listed' "$log" >> "$failures"
echo
cat "$slowest"
echo
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
