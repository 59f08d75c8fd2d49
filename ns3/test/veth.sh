#!/bin/sh
# Runs the suite slipring-net-device-veth in a network namespace of its own. Without root, in a user
# namespace, too, where the host's stack cannot be detached. SPDX-License-Identifier: GPL-2.0-only
#   veth.sh TEST-PROGRAM
set -eu
PATH=$PATH:/usr/sbin:/sbin
if [ -z "${SLIPRING_TEST_VETH:-}" ]; then
    if [ "$(id -u)" = 0 ]; then
        export SLIPRING_TEST_VETH=Detach
        exec unshare --net -- "$0" "$@"
    fi
    export SLIPRING_TEST_VETH=Share
    exec unshare --user --map-root-user --net -- "$0" "$@"
fi
ip link add sv0 type veth peer name sv1
ip link set sv0 up
ip link set sv1 up
exec "$1" --suite=slipring-net-device-veth --verbose
