#!/usr/bin/env python3
"""Copies the output of `cargo test`, and writes the slowest tests to a file: test-times.py FILE THREADS

The harness prints the time of a whole binary, but the time of a test only with a nightly toolchain. It starts
tests in the order of their names, each as soon as one of its THREADS is free, and prints a line when a test
ends, so the start of each test follows from the ends. A test in two binaries is listed twice.
"""

import re
import sys
import time

COUNT = 10
BINARY = re.compile(rb"^ +(?:Running (?:unittests )?.*\((?:.*/)?(.+?)(?:-[0-9a-f]{16})?\)|Doc-tests (.+))$")
TEST = re.compile(rb"^test (.+?)(?: - should panic)? \.\.\. (?:ok|FAILED|ignored.*)$")
WHOLE = re.compile(rb"^test result: .* finished in ([0-9.]+)s$")


def durations(begin, ends, threads):
    """Returns the duration and name of each test, from the start of its binary and the end of
    each test."""
    free = [begin] * threads + sorted(ends.values())
    return [(ends[name] - at, name) for name, at in zip(sorted(ends), free)]


def main():
    path, threads = sys.argv[1], int(sys.argv[2])
    binary, begin, ends = b"", time.monotonic(), {}
    tests, binaries = [], []
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        now, text = time.monotonic(), line.rstrip()
        if found := BINARY.match(text):
            binary = found[1] or b"doc tests of " + found[2]
        elif re.match(rb"^running \d+ tests?$", text):
            begin, ends = now, {}
        elif found := TEST.match(text):
            ends[found[1]] = now
        elif found := WHOLE.match(text):
            binaries.append((float(found[1]), binary))
            # Doc tests are compiled and run one by one, not in the order of their names.
            if not binary.startswith(b"doc tests"):
                tests += [(took, binary + b" " + name) for took, name in durations(begin, ends, threads)]
            ends = {}
    with open(path, "w") as out:
        for title, rows in ("tests", tests), ("test binaries", binaries):
            print(f"The slowest {title}:", file=out)
            for seconds, name in sorted(rows, reverse=True)[:COUNT]:
                print(f"{seconds:8.1f} s  {name.decode(errors='replace')}", file=out)


main()
