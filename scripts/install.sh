#!/usr/bin/env bash
# Installs the files below a directory, and removes installed files: install.sh put STAGE ROOT LIST | remove ROOT LIST
# LIST is a file below ROOT. It names each installed file, and each directory (with a / at its end) that was
# created. Only these are removed, directories only if they are empty. If a file of another program is at the
# path of a file to install, nothing is installed.
set -euo pipefail

# Prints the paths at which the stage has a file, and the root has one that is not in the list.
strangers() {
    local stage=$1 root=$2 list=$3 path
    (cd "$stage" && find . ! -type d | sed 's/^.//') | sort | while IFS= read -r path; do
        [ -e "$root$path" ] || [ -L "$root$path" ] || continue
        grep -qxF -e "$path" "$root$list" 2> /dev/null || echo "$root$path"
    done
}

put() {
    local path others
    # Global, since the trap uses them.
    stage=$1 root=$2 list=$3
    others=$(strangers "$@")
    if [ -n "$others" ]; then
        echo "install: these were there before, and are not slipring's:" >&2
        sed 's/^/  /' <<< "$others" >&2
        echo "move them away, or install below another PREFIX; the bare names come with LINKS=1 only" >&2
        exit 1
    fi
    made=$(cat "$root$list" 2> /dev/null || true)
    # If a copy fails, the list also has the files that were installed before.
    trap 'sort -u <<< "$made" | sed "/^\$/d" > "$root$list" || true' EXIT
    while IFS= read -r path; do
        [ -d "$root$path" ] && continue
        mkdir "$root$path"
        made+=$'\n'$path/
    done < <(cd "$stage" && find . -mindepth 1 -type d | sed 's/^.//' | sort)
    while IFS= read -r path; do
        # Creates a new file, since the file of a running program cannot be written. The user who
        # installs becomes its owner.
        cp -P --preserve=mode --remove-destination "$stage$path" "$root$path"
        made+=$'\n'$path
    done < <(cd "$stage" && find . ! -type d | sed 's/^.//')
}

remove() {
    local root=$1 list=$2 path paths
    if [ ! -e "$root$list" ]; then
        echo "uninstall: nothing was installed there: no $root$list; name the PREFIX and DESTDIR of make install" >&2
        exit 1
    fi
    paths=$(sort -r "$root$list")
    while IFS= read -r path; do
        case "$path" in
            */) [ ! -d "$root$path" ] || rmdir --ignore-fail-on-non-empty "$root$path" ;;
            *)  rm -f "$root$path" ;;
        esac
    done <<< "$paths"
}

case "${1:?}" in
    put|remove) "$@" ;;
    *) echo "install.sh: put or remove, not $1" >&2; exit 2 ;;
esac
