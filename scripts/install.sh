#!/usr/bin/env bash
# Copies what lies ready, and takes away what it copied: install.sh put STAGE ROOT LIST | remove ROOT LIST
# LIST, a file below ROOT, names each file and directory (with a / behind it) that was made, and only that
# is ever taken away; a directory only when it is empty. What somebody else has put in a file's place stays:
# nothing is copied then.
set -euo pipefail

# Says which files of others lie where files of ours are to go.
strangers() {
    local stage=$1 root=$2 list=$3 path
    (cd "$stage" && find . ! -type d | sed 's/^.//') | sort | while IFS= read -r path; do
        [ -e "$root$path" ] || [ -L "$root$path" ] || continue
        grep -qxF -e "$path" "$root$list" 2> /dev/null || echo "$root$path"
    done
}

put() {
    local path others
    # Known to the trap as well.
    stage=$1 root=$2 list=$3
    others=$(strangers "$@")
    if [ -n "$others" ]; then
        echo "install: these were there before, and are not slipring's:" >&2
        sed 's/^/  /' <<< "$others" >&2
        echo "move them away, or install below another PREFIX; the bare names come with LINKS=1 only" >&2
        exit 1
    fi
    made=$(cat "$root$list" 2> /dev/null || true)
    # Also what was made until a copy failed.
    trap 'sort -u <<< "$made" | sed "/^\$/d" > "$root$list" || true' EXIT
    while IFS= read -r path; do
        [ -d "$root$path" ] && continue
        mkdir "$root$path"
        made+=$'\n'$path/
    done < <(cd "$stage" && find . -mindepth 1 -type d | sed 's/^.//' | sort)
    while IFS= read -r path; do
        # One that runs is replaced, not written to. Its owner is who installs.
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
