#!/bin/sh
# Prints the path of promtool; unpacks it from its Debian package if the machine has none. The
# package is not installed: that would start a Prometheus server.
# usage: find.sh TARGET_FOLDER
set -eu
target=$1
tool=$target/promtool/usr/bin/promtool

found() {
    if command -v promtool; then return 0; fi
    if [ -x "$tool" ]; then
        echo "$tool"
        return 0
    fi
    return 1
}

found && exit 0
mkdir -p "$target"
exec 9>"$target/promtool.lock"
flock 9
found && exit 0
if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    folder=$(mktemp -d "$target/promtool-XXXXXX")
    {
        if [ "$(id -u)" = 0 ]; then apt-get update -qq || true; fi
        (cd "$folder" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb unpacked) &&
            mv "$folder/unpacked" "$target/promtool"
    } >&2 || true
    rm -rf "$folder"
    found && exit 0
fi
echo "promtool is missing and could not be downloaded;" \
    "install it (it is part of Prometheus; on Debian: apt-get install prometheus)" >&2
exit 1
