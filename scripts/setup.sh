#!/usr/bin/env bash
# Checks for the programs that a make target runs: setup.sh demo|test|bench|gate|fuzz|ns3|figures
# If run as root, installs missing Debian packages, else prints the command that does. Quick if none is missing.
# Waits while another program installs packages: see apt.sh.
set -euo pipefail

readonly RUST_MINOR=95
# The prefix of all paths that are checked. Tests set another one, to simulate another machine.
readonly ROOT=${SLIPRING_SETUP_ROOT:-}
readonly APT=${0%/*}/apt.sh

# The programs and files that each target needs, and the Debian packages that have them. gcc only
# recommends libc6-dev, but cannot link without it.
readonly BUILD="cc:gcc make:make /usr/include/stdio.h:libc6-dev"
readonly NET="ip:iproute2 ping:iputils-ping iperf3:iperf3"
# The name of this package depends on the archive: see the_name_of.
readonly LIBCLANG=libclang
case "${1:?}" in
    demo)  wanted="$BUILD $NET" ;;
    test)  wanted="$BUILD $NET traceroute:traceroute tcpdump:tcpdump ethtool:ethtool nft:nftables strace:strace"
           wanted="$wanted pasta:passt slirp4netns:slirp4netns python3:python3 curl:curl"
           # With these packages, tests check JSON against its schema, and parse metrics.
           wanted="$wanted /usr/lib/python3/dist-packages/jsonschema:python3-jsonschema"
           wanted="$wanted /usr/lib/python3/dist-packages/prometheus_client:python3-prometheus-client"
           wanted="$wanted c++:g++ flex:flex bison:bison go:golang-go nsenter:util-linux sysctl:procps"
           # Routing daemons, only where their packages do not start them, because the tests start
           # their own.
           [ -d "$ROOT/run/systemd/system" ] || wanted="$wanted bird:bird2 /usr/lib/frr/zebra:frr"
           # Snort's DAQ includes pcap.h; libpcap and tcpdump know ports by the names in /etc/services.
           wanted="$wanted /usr/include/pcap.h:libpcap0.8-dev /etc/services:netbase"
           wanted="$wanted xz:xz-utils systemd-analyze:systemd setcap:libcap2-bin file:file openssl:openssl"
           # Compilers for the example of a link model in C.
           wanted="$wanted clang:clang wasm-ld:lld"
           # A test boots a kernel in a virtual machine. It downloads that kernel itself.
           [ "$(uname -m)" != x86_64 ] || wanted="$wanted qemu-system-x86_64:qemu-system-x86"
           wanted="$wanted $LIBCLANG:$LIBCLANG"
           wanted="$wanted npm:npm chromium:chromium chromedriver:chromium-driver unshare:util-linux" ;;
    bench) wanted="$BUILD ip:iproute2" ;;
    gate)  wanted="$BUILD valgrind:valgrind" ;;
    fuzz)  wanted="$BUILD c++:g++" ;;
    ns3 | figures)
           wanted="$BUILD $NET ethtool:ethtool python3:python3 unshare:util-linux sysctl:procps c++:g++ cmake:cmake pkg-config:pkg-config /usr/include/gsl:libgsl-dev"
           wanted="$wanted /usr/include/ns3/fd-net-device.h:libns3-dev /usr/include/sqlite3.h:libsqlite3-dev"
           [ "$1" = ns3 ] || wanted="$wanted iperf:iperf rsvg-convert:librsvg2-bin" ;;
    *)     echo "setup.sh: no target $1" >&2; exit 2 ;;
esac

# The PATH of ordinary users lacks the directories of ip and ethtool.
PATH="$PATH:/usr/sbin:/sbin"

is_there() {
    case "$1" in
        # The crate netmap-rs reads C headers with this library, which needs the compiler's own
        # headers.
        "$LIBCLANG") compgen -G "$ROOT/usr/lib/llvm-*/lib/libclang*.so*" > /dev/null &&
                     compgen -G "$ROOT/usr/lib/llvm-*/lib/clang/*/include/stddef.h" > /dev/null ;;
        /*)          [ -e "$ROOT$1" ] ;;
        *)           command -v "$1" > /dev/null ;;
    esac
}

in_archive() { apt-cache show -- "$1" > /dev/null 2>&1; }

# Prints the name of a package on this machine. The name of libclang ends with a version; the
# distribution's default version is tried first.
the_name_of() {
    [ "$1" = $LIBCLANG ] || { echo "$1"; return; }
    local version versions
    versions=$(apt-cache depends libclang1 2> /dev/null | sed -n 's/.*Depends: libclang1-\([0-9]*\)$/\1/p')
    for version in $versions $(apt-cache pkgnames libclang1- | sed -n 's/^libclang1-\([0-9]*\)$/\1/p' | sort -rn); do
        if in_archive "libclang1-$version" && in_archive "libclang-common-$version-dev"; then
            echo "libclang1-$version libclang-common-$version-dev"
            return
        fi
    done
    echo libclang-dev
}

missing=()
for pair in $wanted; do
    is_there "${pair%%:*}" || missing+=("${pair##*:}")
done
if [ ${#missing[@]} -gt 0 ] && { [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; }; then
    names=$(for name in "${missing[@]}"; do the_name_of "$name" 2> /dev/null || echo "$name"; done)
    names=${names//$'\n'/ }
    echo "setup: these packages are missing: $names" >&2
    echo "  on Debian, run: sudo apt-get install --no-install-recommends $names" >&2
    # Without the other packages, the demo still works, and reports the parts that it leaves out.
    # Without a linker, it cannot be built.
    if [ "$1" != demo ] || ! is_there cc || ! is_there /usr/include/stdio.h; then exit 3; fi
    missing=()
fi
if [ ${#missing[@]} -gt 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    "$APT" update
    here=()
    for name in "${missing[@]}"; do
        for package in $(the_name_of "$name"); do
            if in_archive "$package"; then
                here+=("$package")
            else
                echo "setup: this machine's archive has no package $package; what needs it is skipped" >&2
            fi
        done
    done
    echo "setup: installing ${here[*]}" >&2
    "$APT" install -y --no-install-recommends "${here[@]}"
    for pair in $BUILD; do
        is_there "${pair%%:*}" || { echo "setup: ${pair%%:*} is missing still; install it, then run this again" >&2; exit 3; }
    done
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
