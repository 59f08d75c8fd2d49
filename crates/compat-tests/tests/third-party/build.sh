#!/usr/bin/env bash
# Builds third-party programs for netmap, from Debian's source packages or crates.io, with the
# headers and the library of this tree instead of netmap's: build.sh libpcap|daq|netmap-rs DIR
# INCLUDE LIBRARY-DIRECTORY. Does nothing if DIR contains an up-to-date build. Exits with status 77
# if there are no sources.
set -euo pipefail

readonly name=${1:?} dir=${2:?} include=${3:?} library=${4:?}
mkdir -p "$dir"
exec 9> "$dir/lock" && flock 9

# An earlier build is used unless the headers or this script have changed.
stamp=$(cat "$0" "$include"/*.h "$include"/net/*.h | sha256sum)
if [ "$(cat "$dir/stamp" 2> /dev/null)" = "$stamp" ]; then exit 0; fi

# Sets up apt in separate directories, with a deb-src entry for each Debian entry of the machine.
apt_options=()
make_apt() {
    local apt=$dir/apt file
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$file" ] && sed -n 's|^deb \(.*/debian.*\)|deb-src \1|p' "$file" >> "$apt/parts/debian.list"
    done
    for file in /etc/apt/sources.list.d/*.sources; do
        if [ -e "$file" ] && grep -q '^URIs:.*/debian' "$file"; then
            sed 's|^Types:.*|Types: deb-src|' "$file" > "$apt/parts/${file##*/}"
        fi
    done
    apt_options=(-qq -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache"
        -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$apt/parts" -o APT::Sandbox::User=)
}

# Unpacks the package's upstream source, as Debian has it, to $dir/src.
fetch() {
    command -v apt-get > /dev/null || { echo "no apt-get to fetch sources by"; exit 77; }
    rm -rf "$dir/apt" "$dir/src" "$dir/tar"
    make_apt
    mkdir -p "$dir/src" "$dir/tar"
    if ! { apt-get "${apt_options[@]}" update &&
        (cd "$dir/tar" && apt-get "${apt_options[@]}" source --download-only --tar-only "$1"); } > "$dir/fetch.log" 2>&1
    then
        echo "Debian's source package $1 cannot be fetched"
        exit 77
    fi
    tar -xf "$dir"/tar/*.orig.tar.* -C "$dir/src" --strip-components=1
    rm -rf "$dir/apt" "$dir/tar"
}

build_libpcap() {
    fetch libpcap
    cd "$dir/src"
    ./configure --disable-dbus --disable-usb --disable-bluetooth --disable-rdma --without-libnl \
        --without-dpdk --without-dag --without-snf
    grep -q 'define PCAP_SUPPORT_NETMAP' config.h
    make -s shared
    # Debian's programs are linked to the library by this name.
    mkdir -p "$dir/lib"
    cp libpcap.so.[0-9]* "$dir/lib/libpcap.so.0.8"
}

# Snort's library for packet input (DAQ), and its netmap module.
build_daq() {
    fetch daq
    cd "$dir/src"
    ./configure --disable-static
    # Generated files in the tarball look older than their sources, so make would run the autotools.
    # This is unnecessary, so `true` runs in their place.
    for part in sfbpf api; do
        make -s -C $part ACLOCAL=true AUTOMAKE=true AUTOCONF=true AUTOHEADER=true
    done
    mkdir -p "$dir/lib"
    cp -P api/.libs/libdaq.so* sfbpf/.libs/libsfbpf.so* api/daq.h api/daq_common.h "$dir/lib"
    cc -O2 -w -fPIC -shared -DHAVE_CONFIG_H -DBUILDING_SO -I. -Iapi -Isfbpf \
        -o "$dir/lib/daq_netmap.so" os-daq-modules/daq_netmap.c "-L$dir/lib" -lsfbpf
}

# The crate netmap, and its example programs.
build_netmap-rs() {
    mkdir -p "$dir/netmap"
    ln -sfn "$include" "$dir/netmap/include"
    ln -sfn "$library" "$dir/netmap/lib"
    if ! NETMAP_LOCATION=$dir/netmap cargo install --version 0.3.1 --locked --features sys --debug \
        --force --root "$dir/lib" --target-dir "$dir/target" netmap-rs 2>&1 | tee "$dir/cargo.log"
    then
        if grep -qE 'failed to (download|fetch|get|query)|[Cc]ould not resolve' "$dir/cargo.log"; then
            echo "the crate netmap-rs cannot be fetched"
            exit 77
        fi
        exit 1
    fi
    rm -rf "$dir/target"
}

export C_INCLUDE_PATH=$include
# Runs in the background, because in a condition `set -e` would have no effect inside.
"build_$name" > "$dir/build.log" 2>&1 &
status=0
wait $! || status=$?
if [ $status != 0 ]; then
    tail -n 20 "$dir/build.log"
    exit $status
fi
echo "$stamp" > "$dir/stamp"
