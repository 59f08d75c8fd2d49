#!/usr/bin/env bash
# Copies a program without its symbols to COPY, and its symbols to COPY.debug: strip.sh PROGRAM COPY
# COPY has the name of COPY.debug, where debuggers and backtraces find functions and lines. A file that is not
# an ELF file, such as a script, is copied unchanged, and so is every file if objcopy is not installed.
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
    # The debug file is not executable.
    chmod 644 "$copy.debug"
    objcopy --strip-all --add-gnu-debuglink="$copy.debug" "$program" "$copy"
fi
