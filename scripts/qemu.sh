#!/usr/bin/env bash
# Unpacks the QEMU that the tests of NIC drivers need (qtest, igb, vfio-user): qemu.sh DIR [--pin]
# Afterwards DIR has qemu-system-x86_64, which runs with its own libraries and needs no chroot and no
# privilege. Installs nothing. Does nothing if DIR has it. Exits with status 77, and prints the reason,
# if the packages cannot be fetched.
#
# The packages are those of qemu.packages: each is pinned by its version and its SHA-256. The archive is
# the one that this machine's apt uses. With --pin, the list is written again from what the archive has.
set -euo pipefail

dir=${1:?directory}
list=$(dirname "$(realpath "$0")")/qemu.packages
mkdir -p "$dir"
dir=$(realpath "$dir")
exec 9> "$dir/lock" && flock 9

skip() { echo "$*"; exit 77; }

command -v apt-get > /dev/null || skip "no apt-get to fetch QEMU by"
command -v dpkg-deb > /dev/null || skip "no dpkg-deb to unpack QEMU by"
[ "$(dpkg --print-architecture)" = amd64 ] || skip "this QEMU is for amd64"
# The first archive with the component main whose path ends in /debian.
archive=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' 2> /dev/null |
    sed -n 's|^\([^ ]*/debian\)/* main$|\1|p' | head -n 1)

# Fetches a file of the archive by apt, which knows the proxies of this machine.
# apt-helper would continue an existing file, so that file is removed first.
fetch() { rm -f "$2"; /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file "$1" "$2" > /dev/null 2>&1; }

# Prints the list for the present contents of the archive. apt checks the signatures of the lists.
pin() {
    local keys=/usr/share/keyrings/debian-archive-keyring.gpg apt=$dir/apt
    rm -rf "$apt" && mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/parts"
    : > "$apt/status"
    printf "deb [signed-by=$keys] $archive %s main\n" trixie trixie-backports > "$apt/sources.list"
    cat > "$apt/conf" << EOF
Dir::State "$apt"; Dir::State::status "$apt/status"; Dir::Cache "$apt"; Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts"; Dir::Etc::preferencesparts "$apt/parts"; APT::Sandbox::User "root";
APT::Architecture "amd64"; APT::Architectures "amd64"; APT::Install-Recommends "false"; Acquire::Languages "none";
EOF
    APT_CONFIG=$apt/conf apt-get -qq update
    APT_CONFIG=$apt/conf apt-get -qq install --print-uris -y -t trixie-backports qemu-system-x86 |
        sed -n "s|^'\([^']*/\(pool/[^']*\)\)' .*|\1 \2|p" |
        while read -r uri path; do
            fetch "$uri" "$apt/package.deb"
            # Unpacks only packages that contain libraries or QEMU's files; the packages' scripts
            # are not run.
            if dpkg-deb -c "$apt/package.deb" | grep -qE 'lib/x86_64-linux-gnu/.*\.so|share/(qemu|seabios)/'; then
                echo "$(sha256sum < "$apt/package.deb" | cut -d' ' -f1)  $path"
            fi
        done | sort -k 2
    rm -rf "$apt"
}

if [ "${2:-}" = --pin ]; then
    [ -n "$archive" ] || skip "this machine's apt knows no archive of Debian"
    { sed -n '/^#/p' "$list"; pin; } > "$dir/pinned"
    mv "$dir/pinned" "$list"
fi

stamp=$(cat "$0" "$list" | sha256sum)
[ "$(cat "$dir/stamp" 2> /dev/null)" != "$stamp" ] || exit 0
[ -n "$archive" ] || skip "this machine's apt knows no archive of Debian"

rm -rf "$dir/root" "$dir/stamp"
mkdir -p "$dir/root"
while read -r sum path; do
    fetch "$archive/$path" "$dir/package.deb" ||
        skip "the archive of Debian does not have ${path##*/}: no network, or a newer version (scripts/qemu.sh DIR --pin)"
    echo "$sum  $dir/package.deb" | sha256sum --check --quiet || { echo "${path##*/} is not the pinned file" >&2; exit 1; }
    dpkg-deb -x "$dir/package.deb" "$dir/root"
done < <(grep -v '^#' "$list")
rm -rf "$dir/package.deb" "$dir/root/usr/share/doc"

cat > "$dir/qemu-system-x86_64" << 'EOF'
#!/bin/sh
# Written by scripts/qemu.sh.
root=$(dirname "$(realpath "$0")")/root
libraries=$root/usr/lib/x86_64-linux-gnu
export QEMU_MODULE_DIR="$libraries/qemu"
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$libraries" "$root/usr/bin/qemu-system-x86_64" \
    -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" "$@"
EOF
chmod +x "$dir/qemu-system-x86_64"
"$dir/qemu-system-x86_64" --version > /dev/null
echo "$stamp" > "$dir/stamp"
