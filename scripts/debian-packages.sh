# Functions for scripts that unpack pinned packages of Debian's archive, and install nothing. A script that
# sources this file has set `dir`, the directory to unpack into, and `list`, the list of packages: of each
# the SHA-256 and the path in the archive. It defines is_needed FILE, which says whether pin() lists a package.

skip() { echo "$*"; exit 77; }

# Takes the lock of the directory, and finds the archive that this machine's apt uses: prepare WHAT
prepare() {
    mkdir -p "$dir"
    dir=$(realpath "$dir")
    exec 9> "$dir/lock" && flock 9
    command -v apt-get > /dev/null || skip "no apt-get to fetch $1 by"
    command -v dpkg-deb > /dev/null || skip "no dpkg-deb to unpack $1 by"
    [ "$(dpkg --print-architecture)" = amd64 ] || skip "this $1 is for amd64"
    # The first archive with the component main whose path ends in /debian.
    archive=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' 2> /dev/null |
        sed -n 's|^\([^ ]*/debian\)/* main$|\1|p' | head -n 1)
}

# Fetches a file of the archive by apt, which knows the proxies of this machine.
# apt-helper would continue an existing file, so that file is removed first.
fetch() { rm -f "$2"; /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file "$1" "$2" > /dev/null 2>&1; }

# Prints the list for the present contents of the archive: pin "SUITE..." PACKAGE...
# The packages are those that apt would install, as far as they are needed. apt checks the signatures of
# the lists. Packages of the last suite are preferred.
pin() {
    local keys=/usr/share/keyrings/debian-archive-keyring.gpg apt=$dir/apt suites=$1
    shift
    rm -rf "$apt" && mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/parts"
    : > "$apt/status"
    # shellcheck disable=SC2086
    printf "deb [signed-by=$keys] $archive %s main\n" $suites > "$apt/sources.list"
    cat > "$apt/conf" << EOF
Dir::State "$apt"; Dir::State::status "$apt/status"; Dir::Cache "$apt"; Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts"; Dir::Etc::preferencesparts "$apt/parts"; APT::Sandbox::User "root";
APT::Architecture "amd64"; APT::Architectures "amd64"; APT::Install-Recommends "false"; Acquire::Languages "none";
EOF
    APT_CONFIG=$apt/conf apt-get -qq update
    APT_CONFIG=$apt/conf apt-get -qq install --print-uris -y -t "${suites##* }" "$@" |
        sed -n "s|^'\([^']*/\(pool/[^']*\)\)' .*|\1 \2|p" |
        while read -r uri path; do
            fetch "$uri" "$apt/package.deb"
            if is_needed "$apt/package.deb"; then
                echo "$(sha256sum < "$apt/package.deb" | cut -d' ' -f1)  $path"
            fi
        done | sort -k 2
    rm -rf "$apt"
}

# Writes the list again, with its comments: pin_list "SUITE..." PACKAGE...
pin_list() {
    [ -n "$archive" ] || skip "this machine's apt knows no archive of Debian"
    { sed -n '/^#/p' "$list"; pin "$@"; } > "$dir/pinned"
    mv "$dir/pinned" "$list"
}

# Unpacks the packages of the list into $dir/root. The packages' scripts are not run. COMMAND is what writes the list again:
# unpack_list COMMAND
unpack_list() {
    [ -n "$archive" ] || skip "this machine's apt knows no archive of Debian"
    rm -rf "$dir/root" "$dir/stamp"
    mkdir -p "$dir/root"
    while read -r sum path; do
        fetch "$archive/$path" "$dir/package.deb" ||
            skip "the archive of Debian does not have ${path##*/}: no network, or a newer version ($1)"
        echo "$sum  $dir/package.deb" | sha256sum --check --quiet || { echo "${path##*/} is not the pinned file" >&2; exit 1; }
        dpkg-deb -x "$dir/package.deb" "$dir/root"
    done < <(grep -v '^#' "$list")
    rm -rf "$dir/package.deb" "$dir/root/usr/share/doc"
}
