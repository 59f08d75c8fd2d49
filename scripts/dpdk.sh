#!/usr/bin/env bash
# Unpacks DPDK's testpmd with its r8169 driver, for guests: dpdk.sh DIR [--pin]
# Afterwards DIR/files has a line NAME=FILE for each file that a guest needs. Installs nothing. Does nothing
# if DIR has it. Exits with status 77, and prints the reason, if the packages cannot be fetched.
#
# The packages are those of dpdk.packages: each is pinned by its version and its SHA-256. The archive is
# the one that this machine's apt uses. With --pin, the list is written again from what the archive has, of
# the same packages. The names of DPDK's libraries contain the version of their interface.
set -euo pipefail

dir=${1:?directory}
here=$(dirname "$(realpath "$0")")
list=$here/dpdk.packages
. "$here/debian-packages.sh"
prepare DPDK

names=$(grep -v '^#' "$list" | sed 's|.*/\([^_]*\)_.*|\1|')
# testpmd's package depends on many more, which testpmd does not load.
is_needed() { grep -qx "$(dpkg-deb -f "$1" Package)" <<< "$names"; }

# shellcheck disable=SC2086
[ "${2:-}" != --pin ] || pin_list trixie $names

stamp=$(cat "$0" "$here/debian-packages.sh" "$list" | sha256sum)
[ "$(cat "$dir/stamp" 2> /dev/null)" != "$stamp" ] || exit 0
unpack_list "scripts/dpdk.sh DIR --pin"

libraries=usr/lib/x86_64-linux-gnu loader=lib64/ld-linux-x86-64.so.2
{
    echo "usr/bin/dpdk-testpmd=$dir/root/usr/bin/dpdk-testpmd"
    echo "$loader=$(realpath "$dir/root/usr/$loader")"
    { "$dir/root/usr/$loader" --library-path "$dir/root/$libraries" --list "$dir/root/usr/bin/dpdk-testpmd"
      "$dir/root/usr/$loader" --library-path "$dir/root/$libraries" --list "$dir/root/$libraries/librte_net_r8169.so.25"
      echo "r8169 => $dir/root/$libraries/librte_net_r8169.so.25"
      echo "ring => $dir/root/$libraries/librte_mempool_ring.so.25"; } |
        sed -n 's|.* => \([^ ]*\).*|\1|p' | sort -u |
        while read -r file; do echo "$libraries/${file##*/}=$(realpath "$file")"; done
} > "$dir/files"
echo "$stamp" > "$dir/stamp"
