#!/bin/sh
# A failed test ends the runner with an error, and its cause is printed. The cause is looked for, because a runner without
# the suite ends with an error too. SPDX-License-Identifier: GPL-2.0-only
#   failure.sh TEST-PROGRAM
set -u
output=$(SLIPRING_TEST_FAILURE=1 "$1" --suite=slipring-failure --verbose 2>&1)
status=$?
printf '%s\n' "$output"
[ $status = 1 ] || { echo "the runner ended with $status, not 1" >&2; exit 1; }
case $output in *"as it should"*) ;; *) echo "the runner did not name the failure" >&2; exit 1 ;; esac
