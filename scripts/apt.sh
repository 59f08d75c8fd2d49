#!/usr/bin/env bash
# Runs apt-get quietly, once no other program holds its locks: apt.sh update | install PACKAGE...
# Waits at most SLIPRING_APT_WAIT seconds (default: 600). apt-get's own option DPkg::Lock::Timeout
# waits only for the locks of dpkg, not for those of package lists and archives, and requires apt
# 1.9.11.
set -uo pipefail

readonly WAIT=${SLIPRING_APT_WAIT:-600}

waited=0
until said=$(LC_ALL=C apt-get -qq -o DPkg::Lock::Timeout="$WAIT" "$@" 2>&1 > /dev/null); do
    if ! grep -qE 'Could not get lock|Unable to (lock|acquire)' <<< "$said"; then
        echo "$said" >&2
        exit 1
    fi
    [ "$waited" != 0 ] || echo "apt: waiting: $(grep -m 1 lock <<< "$said")" >&2
    if [ "$waited" -ge "$WAIT" ]; then
        echo "apt: still locked after $waited s; run this again when the other program has finished" >&2
        exit 1
    fi
    sleep 1
    waited=$((waited + 1))
done
