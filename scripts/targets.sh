#!/usr/bin/env bash
# Checks that crates without system calls build for other systems than Linux: targets.sh [TARGET ...]
# If a target's libraries are not installed (`rustup target add`), core and alloc are built from the toolchain's
# sources. Without these, the script prints the command that installs the libraries.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CRATES="abi simd wire pcap model classify filter nat traffic link gateway switch balance dedup ipfw dummynet rtnetlink fib route"
packages=$(printf -- '-p slipring-%s ' $CRATES)
rustlib=$(rustc --print sysroot)/lib/rustlib
[ $# -gt 0 ] || set -- x86_64-unknown-freebsd x86_64-pc-windows-msvc
for target; do
    if [ -d "$rustlib/$target/lib" ]; then
        cargo check -q --target "$target" $packages
    elif [ -d "$rustlib/src/rust/library" ]; then
        # The unstable flag is for this check only. No build of a product uses it.
        RUSTC_BOOTSTRAP=1 cargo check -q -Zbuild-std=core,alloc --target "$target" $packages
    else
        echo "skipped: no libraries for $target: rustup target add $target"
        continue
    fi
    echo "$target: ok"
done
