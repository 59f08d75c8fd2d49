#!/bin/sh
# Each choice of an ns-3 that cannot be used is refused with its cause. SPDX-License-Identifier: GPL-2.0-only
#   choice-of-ns3.sh CMAKE
set -eu
tools=$(cd "$(dirname "$0")/../tools" && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

# Expects CMake, with the option, to end with an error that has the words.
refused() {
    if output=$("$cmake" "$1" -P "$tools/installed-ns3.cmake" 2>&1); then
        echo "$1 was not refused" >&2; exit 1
    fi
    # CMake breaks lines.
    case $(echo "$output" | tr -s ' \n' ' ') in *"$2"*) ;; *) echo "$1: $output has no: $2" >&2; exit 1 ;; esac
}

cmake=$1
refused "-Dns3_DIR=$prefix/lib/cmake/ns3" "no directory above $prefix/lib/cmake/ns3 has include/ns3/core-module.h"
mkdir -p "$prefix/include/ns3" "$prefix/lib/cmake/ns3"
touch "$prefix/include/ns3/core-module.h"
refused "-Dns3_DIR=$prefix/lib/cmake/ns3" "set -DSLIPRING_NS3=$prefix"
refused "-DSLIPRING_NS3=$prefix" "has no libns3*-core*.so"
for module in core network internet traffic-control applications internet-apps point-to-point stats; do
    touch "$prefix/lib/libns3.99-$module.so"
done
refused "-DSLIPRING_NS3=$prefix" "lacks modules of ns-3: fd-net-device;bridge"
touch "$prefix/lib/libns3.99-fd-net-device.so" "$prefix/lib/libns3.99-bridge.so"
refused "-DSLIPRING_NS3=$prefix" "lib/cmake/ns3/ns3ConfigVersion.cmake, which has the version of ns-3, is missing"
echo 'set(PACKAGE_VERSION 3.99)' > "$prefix/lib/cmake/ns3/ns3ConfigVersion.cmake"
"$cmake" "-DSLIPRING_NS3=$prefix" -P "$tools/installed-ns3.cmake"
