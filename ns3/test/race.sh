#!/bin/sh
# ThreadSanitizer reports a race of an event of the real-time simulator, and tsan.supp does not hide it: all events run
# below functions of libns3. SPDX-License-Identifier: GPL-2.0-only
#   race.sh TEST-PROGRAM        built with -DSLIPRING_SANITIZE=thread
set -u
supp=$(dirname "$0")/../tools/tsan.supp
output=$(SLIPRING_TEST_RACE=1 TSAN_OPTIONS="suppressions=$supp" "$1" --suite=slipring-race 2>&1)
status=$?
printf '%s\n' "$output"
[ $status = 66 ] || { echo "the runner ended with $status, not 66" >&2; exit 1; }
case $output in *"data race"*" Count "*) ;; *) echo "the race was not reported" >&2; exit 1 ;; esac
