#!/usr/bin/env bash
# Sees to the programs that a make target runs: setup.sh demo|test|bench|gate|fuzz
# Installs missing Debian packages when it is root, else says what to run. Quick when all is there.
set -euo pipefail

readonly RUST_MINOR=95

# What each target runs, and the Debian package that has it.
readonly BUILD="cc:gcc make:make"
readonly NET="ip:iproute2 ping:iputils-ping iperf3:iperf3"
# What the crate netmap-rs reads C headers by.
readonly LIBCLANG=/usr/lib/llvm-14/lib/libclang.so.1 CLANG_HEADERS=/usr/lib/llvm-14/lib/clang
case "${1:?}" in
    demo)  wanted="$BUILD $NET" ;;
    test)  wanted="$BUILD $NET tcpdump:tcpdump ethtool:ethtool nft:nftables"
           wanted="$wanted pasta:passt slirp4netns:slirp4netns python3:python3 curl:curl"
           wanted="$wanted c++:g++ flex:flex bison:bison go:golang-go nsenter:util-linux sysctl:procps"
           # The kernel that it boots is fetched by the test itself, not installed.
           [ "$(uname -m)" != x86_64 ] || wanted="$wanted qemu-system-x86_64:qemu-system-x86"
           wanted="$wanted $LIBCLANG:libclang1-14 $CLANG_HEADERS:libclang-common-14-dev"
           wanted="$wanted npm:npm chromium:chromium chromedriver:chromium-driver unshare:util-linux" ;;
    bench) wanted="$BUILD ip:iproute2" ;;
    gate)  wanted="$BUILD valgrind:valgrind" ;;
    fuzz)  wanted="$BUILD c++:g++" ;;
    *)     echo "setup.sh: no target $1" >&2; exit 2 ;;
esac

# Ordinary users lack the directories of ip and ethtool in PATH, but may run what is there.
PATH="$PATH:/usr/sbin:/sbin"

missing=()
for pair in $wanted; do
    command -v "${pair%%:*}" > /dev/null || [ -e "${pair%%:*}" ] || missing+=("${pair##*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
        echo "setup: these packages are missing: ${missing[*]}" >&2
        echo "  on Debian, run: sudo apt-get install ${missing[*]}" >&2
        # The demo says itself what it cannot show without them; the linker it cannot do without.
        if [ "$1" != demo ] || ! command -v cc > /dev/null; then exit 3; fi
        missing=()
    fi
fi
if [ ${#missing[@]} -gt 0 ]; then
    echo "setup: installing ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
fi

if ! command -v cargo > /dev/null; then
    echo "setup: Rust is missing; install the stable toolchain with rustup, then run this again" >&2
    exit 3
fi
version=$(rustc --version)
minor=${version#rustc 1.}
if [ "${minor%%.*}" -lt $RUST_MINOR ]; then
    echo "setup: $version is older than 1.$RUST_MINOR; run: rustup update stable" >&2
    exit 3
fi
