#!/bin/sh
# Starts a nats-server in a scratch folder and stops it when no process uses it any more.
# usage: serve.sh FOLDER PROGRAM PORT [SYNC_INTERVAL]
#
# FOLDER/more.conf, if it is there, is added to the server's configuration.
#
# A user of the server holds a shared lock on FOLDER/users.lock; the system takes it back when
# the process ends, however it ends. FOLDER/start.lock is held by a process that starts, joins or
# ends the server.
set -u

# It outlives its caller, and must not keep the caller's files and locks open.
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-

folder=$1
program=$2
port=$3
sync=${4:-always}

cd "$folder" || exit 1
rm -rf "$folder/data"
cat >"$folder/server.conf" <<CONFIG
listen: "127.0.0.1:$port"
jetstream {
    store_dir: "$folder/data"
    sync_interval: $sync
    max_file_store: 512GB
    max_memory_store: 512GB
}
CONFIG
if [ -f "$folder/more.conf" ]; then
    cat "$folder/more.conf" >>"$folder/server.conf"
fi
"$program" -c "$folder/server.conf" &
server=$!
trap 'kill -QUIT $server 2>/dev/null; rm -rf "$folder/data"' EXIT

while kill -0 $server 2>/dev/null; do
    flock --exclusive "$folder/users.lock" true
    sleep 3
    exec 8>>"$folder/start.lock"
    flock 8
    if flock --exclusive --nonblock "$folder/users.lock" true; then
        rm -f "$folder/port"
        kill -INT $server
        wait $server
        exit 0
    fi
    exec 8>&-
done
rm -f "$folder/port"
