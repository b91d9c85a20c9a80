#!/bin/sh
# Starts a PostgreSQL server in a scratch folder and stops it when no process uses it any more.
# usage: serve.sh FOLDER PROGRAMS PORT [FSYNC]
#
# A user of the server holds a shared lock on FOLDER/users.lock; the system takes it back when
# the process ends, however it ends. FOLDER/start.lock is held by a process that starts, joins or
# ends the server.
set -u

# It outlives its caller, and must not keep the caller's files and locks open.
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-

folder=$1
programs=$2
port=$3
fsync=${4:-off}
data=$folder/data

# PostgreSQL refuses to run as root.
as=""
if [ "$(id -u)" = 0 ]; then
    user=nobody
    id postgres >/dev/null 2>&1 && user=postgres
    chown "$user" "$folder"
    as="setpriv --reuid=$user --regid=$(id -g "$user") --clear-groups --reset-env"
fi

cd "$folder" || exit 1
rm -rf "$data"
$as "$programs/initdb" -D "$data" -U windlass -A trust -E UTF8 --locale=C --no-sync || exit 1
# Without a crash of the machine nothing is lost: scratch data needs no sync, unless its cost is
# measured. Then the rest is as in production too.
naptime=5s
[ "$fsync" = on ] && naptime=1min
$as "$programs/postgres" -D "$data" -p "$port" -k "$folder" -c listen_addresses=127.0.0.1 \
    -c fsync="$fsync" -c full_page_writes="$fsync" -c max_connections=400 -c shared_buffers=64MB \
    -c max_wal_size=512MB -c autovacuum_naptime="$naptime" -c log_min_messages=warning &
server=$!
trap 'kill -QUIT $server 2>/dev/null; rm -rf "$data"' EXIT

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
