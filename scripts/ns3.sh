#!/usr/bin/env bash
# Parts of `make ns3` and `make ns3-contrib`:
#
#   ns3.sh build [LIBRARY]  builds module, tests and examples against the installed ns-3, into target/ns3
#   ns3.sh examples         runs what is built: links beside `slipring emulate --virtual`, the examples over veth;
#                           SLIPRING=FILE takes a program that is built
#   ns3.sh figures LIBRARY  measures the device beside the stock one, for ns3/doc/figures
#   ns3.sh contrib PATH     builds module and tests in the source tree of ns-3 at PATH, and runs the suites
#
# CMAKE_ARGS are passed on, such as -Dns3_DIR=DIRECTORY for another ns-3.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }

TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
OUT=$TARGET/ns3
LIBRARY=
export CARGO_TERM_COLOR=never

# Sets LIBRARY to the library that is given, or builds it. That all crates in it go together with the GPL,
# version 2, is a test of slipring-capi (licences.rs).
core() {
    LIBRARY=${1:-$TARGET/debug/libslipring.a}
    [ $# -gt 0 ] || cargo build -q -p slipring-capi
}

build() {
    core "$@"
    # shellcheck disable=SC2086 # CMAKE_ARGS are words.
    cmake -S ns3 -B "$OUT" -DSLIPRING_LIBRARY="$LIBRARY" ${CMAKE_ARGS:-} > "$OUT.log" 2>&1 ||
        { cat "$OUT.log" >&2; echo "ns3: CMake failed; try: scripts/setup.sh ns3" >&2; exit 1; }
    grep slipring-net-device "$OUT.log"
    cmake --build "$OUT" -j "${JOBS:-$(nproc)}"
}

examples() {
    [ -n "${SLIPRING:-}" ] || cargo build -q --workspace --bin slipring
    SLIPRING=$(realpath "${SLIPRING:-$TARGET/debug/slipring}")
    export SLIPRING EXAMPLES=$OUT/examples
    python3 ns3/test/link-equals-virtual.py "$SLIPRING" "$EXAMPLES/slipring-link-replay"
    python3 ns3/test/examples.py ns3/examples/run.sh "$EXAMPLES"
    ns3/examples/federation.sh
}

figures() {
    OUT=$TARGET/ns3-figures
    CMAKE_ARGS="-DCMAKE_BUILD_TYPE=Release ${CMAKE_ARGS:-}" build "$@"
    python3 ns3/tools/figures.py ns3/examples/run.sh "$OUT/examples" "${FIGURES:-ns3/doc/figures}"
}

contrib() {
    local tree=${1:?contrib needs the path of a source tree of ns-3}
    [ -x "$tree/ns3" ] || { echo "ns3: $tree has no program ns3; try: apt-get source ns3, or a release of ns-3" >&2; exit 2; }
    core
    local here=$PWD
    ln -sfn "$here/ns3" "$tree/contrib/slipring-net-device"
    cd "$tree"
    # ns-3 finds what a module needs by reading its CMakeLists.txt, which ours computes.
    # shellcheck disable=SC2086 # NS3_CONFIGURE are words.
    ./ns3 configure --enable-tests --enable-examples \
        --enable-modules="slipring-net-device;fd-net-device;point-to-point;applications;internet-apps" \
        --filter-module-examples-and-tests=slipring-net-device ${NS3_CONFIGURE:-}
    cmake -DSLIPRING_LIBRARY="$LIBRARY" -DSLIPRING_INCLUDE="$here/include" cmake-cache | grep slipring-net-device
    ./ns3 build -j "${JOBS:-$(nproc)}"
    local runner
    runner=$(find build/utils -name 'ns3*-test-runner*' -type f | head -n 1)
    "$runner" --list | awk '/slipring/ { print $NF }' | while read -r suite; do
        "$runner" --suite="$suite" --verbose
    done
}

case $1 in
    build) shift; build "$@" ;;
    examples) examples ;;
    figures) shift; figures "$@" ;;
    contrib) contrib "${2:-}" ;;
    *) echo "ns3.sh: no command $1" >&2; exit 2 ;;
esac
