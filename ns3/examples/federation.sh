#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Two simulations, each in a process of its own, whose nodes ping each other over a switch of a daemon.
#
#   federation.sh [SECONDS]
#
# SLIPRING and EXAMPLES name the program slipring and the directory of the examples (default: those of `make ns3`).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=$here/../../target
SLIPRING=${SLIPRING:-$target/debug/slipring}
EXAMPLES=${EXAMPLES:-$target/ns3/examples}
seconds=${1:-3}
for program in "$SLIPRING" "$EXAMPLES/slipring-federation"; do
    [ -x "$program" ] || { echo "federation.sh: no program $program; try: make ns3, or SLIPRING= and EXAMPLES=" >&2; exit 2; }
done
if [ "${FEDERATION_SANDBOX:-}" != 1 ]; then
    root=()
    [ "$(id -u)" = 0 ] || root=(--map-root-user)
    FEDERATION_SANDBOX=1 exec unshare "${root[@]}" --mount --net "$0" "$@"
fi
run=$(mktemp -d)
exec {daemon}< <(exec "$SLIPRING" daemon --run-dir "$run" --link none 2>&1)
pid=$!
trap 'kill $pid 2> /dev/null; wait $pid; rm -rf "$run"' EXIT
read -r mode <&"$daemon" # the daemon is ready when it has printed this
echo "$mode"
other=("$EXAMPLES/slipring-federation" --runDir="$run" --port=vale9:b --address=10.0.9.2 --mac=02:00:00:00:09:02
    --duration=$((seconds + 60)))
exec {second}< <(exec "${other[@]}" 2>&1)
second_pid=$!
read -r ready <&"$second"
[ "$ready" = ready ] || { echo "$ready" >&2; exit 1; }
"$EXAMPLES/slipring-federation" --runDir="$run" --port=vale9:a --address=10.0.9.1 --ping=10.0.9.2 --duration="$seconds"
kill -INT "$second_pid"
wait "$second_pid" || true
