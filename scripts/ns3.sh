#!/usr/bin/env bash
# Parts of `make ns3` and `make ns3-contrib`:
#
#   ns3.sh build [LIBRARY]  builds module, tests and examples against the installed ns-3, into target/ns3
#   ns3.sh examples         runs what is built: links beside `slipring emulate --virtual`, the examples over veth;
#                           SLIPRING=FILE takes a program that is built
#   ns3.sh figures LIBRARY  builds for `measure`, and measures
#   ns3.sh measure          measures the device beside the stock one: FIGURES/figures.csv with its pictures, and FIGURES_PAGE
#                           (ns3/doc/figures, ns3/doc/figures.rst); PARTS="udp receiving" measures only these again
#   ns3.sh contrib PATH [LIBRARY]  builds module and tests in the source tree of ns-3 at PATH, and runs the suites
#
# CMAKE_ARGS are passed on, such as -DSLIPRING_NS3=PREFIX for another ns-3.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }

TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
OUT=$TARGET/ns3
HERE=$PWD
FIGURES=${FIGURES:-ns3/doc/figures}
LIBRARY=
export CARGO_TERM_COLOR=never

# Sets LIBRARY to the library that is given, or builds it. A test of slipring-capi (licences.rs)
# checks that the licences of all crates in it are compatible with the GPL, version 2.
core() {
    LIBRARY=$(realpath -m "${1:-$TARGET/debug/libslipring.a}")
    [ $# -gt 0 ] || cargo build -q -p slipring-capi
}

build() {
    core "$@"
    mkdir -p "$TARGET"
    # shellcheck disable=SC2086 # CMAKE_ARGS are words.
    cmake -S ns3 -B "$OUT" -DSLIPRING_LIBRARY="$LIBRARY" ${CMAKE_ARGS:-} > "$OUT.log" 2>&1 ||
        { cat "$OUT.log" >&2; echo "ns3: CMake failed; try: scripts/setup.sh ns3" >&2; exit 1; }
    grep slipring-net-device "$OUT.log"
    # shellcheck disable=SC2086 # TARGETS are words.
    cmake --build "$OUT" -j "${JOBS:-$(nproc)}" ${TARGETS:+--target $TARGETS}
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
    CMAKE_ARGS="-DCMAKE_BUILD_TYPE=Release ${CMAKE_ARGS:-}" \
        TARGETS="fd-netmap-emu-ping fd-netmap-emu-onoff fd-netmap-emu-send slipring-source" build "$@"
    measure
}

# Measures with the programs that `figures` has built.
measure() {
    mkdir -p "$FIGURES"
    # shellcheck disable=SC2086 # PARTS are words.
    python3 ns3/tools/figures.py ns3/examples/run.sh "$TARGET/ns3-figures/examples" "$FIGURES/figures.csv" ${PARTS:-}
    python3 ns3/tools/figures_page.py "$FIGURES/figures.csv" "${FIGURES_PAGE:-ns3/doc/figures.rst}"
}

contrib() {
    local tree=${1:?contrib needs the path of a source tree of ns-3}
    [ -x "$tree/ns3" ] || { echo "ns3: $tree has no program ns3; try: apt-get source ns3, or a release of ns-3" >&2; exit 2; }
    shift
    core "$@"
    mkdir -p "$TARGET"
    ln -sfn "$HERE/ns3" "$tree/contrib/slipring-net-device"
    cd "$tree"
    # ns-3 finds what a module needs by reading its CMakeLists.txt. Ours computes this list, so ns-3
    # does not find it, and the modules are named here. The program that runs the tests needs csma, without
    # which it does not link.
    # shellcheck disable=SC2086 # NS3_CONFIGURE are words.
    ./ns3 configure --enable-tests --enable-examples \
        --enable-modules="slipring-net-device;fd-net-device;point-to-point;applications;internet-apps;csma" \
        --filter-module-examples-and-tests=slipring-net-device ${NS3_CONFIGURE:-} \
        -- -DSLIPRING_LIBRARY="$LIBRARY" -DSLIPRING_INCLUDE="$HERE/include" | tee "$OUT-contrib.log"
    grep -q 'slipring-net-device *: ON' "$OUT-contrib.log" || { echo "ns3: the module is off; see $OUT-contrib.log" >&2; exit 1; }
    ./ns3 build -j "${JOBS:-$(nproc)}"
    run_suites
}

# Runs the module's suites by the runner of the tree in this directory.
run_suites() {
    local runner suites suite
    runner=$(find build/utils -name 'ns3*-test-runner*' -type f -executable | head -n 1)
    suites=$("$runner" --list | awk '/slipring/ { print $NF }')
    [ -n "$suites" ] || { echo "ns3: $runner has no suite of slipring" >&2; exit 1; }
    for suite in $suites; do
        "$runner" --suite="$suite" --verbose
    done
    "$HERE/ns3/test/veth.sh" "$runner"
}

case $1 in
    build) shift; build "$@" ;;
    examples) examples ;;
    figures) shift; figures "$@" ;;
    measure) measure ;;
    contrib) shift; contrib "$@" ;;
    *) echo "ns3.sh: no command $1" >&2; exit 2 ;;
esac
