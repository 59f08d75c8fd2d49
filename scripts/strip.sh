#!/usr/bin/env bash
# Copies a program without its symbols, and the symbols to a file beside it: strip.sh PROGRAM COPY
# COPY names COPY.debug, where debuggers and backtraces find functions and lines. What is no ELF file, such
# as a script, is copied as it is; so is everything where there is no objcopy.
set -euo pipefail

program=${1:?} copy=${2:?}
rm -f "$copy" "$copy.debug"
if [ "$(head -c 4 "$program" | tail -c 3)" != ELF ]; then
    install -m 755 "$program" "$copy"
elif ! command -v objcopy > /dev/null; then
    echo "strip: $program keeps its symbols: objcopy is missing (Debian: binutils)" >&2
    install -m 755 "$program" "$copy"
else
    objcopy --only-keep-debug "$program" "$copy.debug"
    # Data to read, not a program to run.
    chmod 644 "$copy.debug"
    objcopy --strip-all --add-gnu-debuglink="$copy.debug" "$program" "$copy"
fi
