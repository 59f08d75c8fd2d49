#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# A page of figures, or a picture, that is not made from the numbers fails the check.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$here/doc/." "$copy"
check() { python3 -B "$here/tools/figures_page.py" --check "$copy/figures/figures.csv" "$copy/figures.rst"; }

check
for file in figures.rst figures/send.svg figures/backlog.svg; do
    cp "$copy/$file" "$copy/kept"
    echo >> "$copy/$file"
    if said=$(check 2>&1) || [[ $said != *"$file is not made from"* ]]; then
        echo "the check does not notice that $file has changed: $said" >&2
        exit 1
    fi
    mv "$copy/kept" "$copy/$file"
done
