#!/bin/bash
# Starts the daemons of one cluster. Without arguments it is PID 1 of the
# cluster's namespace; "init.sh start NAME" starts one daemon again.
set -u
. /cluster/settings
log=/cluster/log

launch() { # NAME USER COMMAND...
  local name=$1 user=$2
  shift 2
  chroot --userspec="$user:$user" / "$@" >>"$log/$name.out" 2>&1 </dev/null &
  echo $! >"/cluster/run/$name.pid"
}

# await waits until a daemon has its port, and fails when the daemon has gone.
await() { # NAME PORT
  until (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; do
    kill -0 "$(cat "/cluster/run/$1.pid")" 2>/dev/null || return 1
    sleep 0.02
  done
}

# database makes an empty database and starts its server, on a unix socket only. The
# schema's name is made here because slurmdbd's own first connection, which finds none and
# makes it, fails with some versions of the database's library.
database() {
  mkdir -p /run/mysqld && chown mysql: /run/mysqld
  if [ ! -d /cluster/db/mysql ]; then
    (
      cd /usr/share/mariadb
      printf 'create database mysql;\nuse mysql;\n'
      cat mariadb_system_tables.sql mariadb_performance_tables.sql mariadb_system_tables_data.sql
      printf 'create database slurm_acct;\n'
    ) | chroot --userspec=mysql:mysql / mariadbd --no-defaults --bootstrap --datadir=/cluster/db --skip-log-bin >>"$log/mariadbd.out" 2>&1
  fi
  launch mariadbd mysql mariadbd --no-defaults --datadir=/cluster/db --socket=/run/mysqld/mysqld.sock --skip-networking \
    --skip-grant-tables --skip-log-bin --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M \
    --innodb-lock-wait-timeout=900 --innodb-snapshot-isolation=OFF
  until [ -S /run/mysqld/mysqld.sock ]; do
    kill -0 "$(cat /cluster/run/mariadbd.pid)" 2>/dev/null || return 1
    sleep 0.02
  done
}

plugins=slurmctld,util
[ "$ACCOUNTING_PORT" = 0 ] || plugins=slurmctld,slurmdbd,util # fatal without a slurmdbd

start() {
  case $1 in
  slurmdbd) launch slurmdbd slurm slurmdbd -D ;;
  slurmctld) launch slurmctld slurm slurmctld -D -i ;;
  slurmrestd)
    # The socket is made in a folder that the user may write to.
    mkdir -p /cluster/run/rest && chown slurmrest /cluster/run/rest
    launch slurmrestd slurmrest env SLURM_JWT=daemon SLURMRESTD_DEBUG=error SLURMRESTD_JSON=compact MALLOC_ARENA_MAX=2 \
      slurmrestd -t 16 -a rest_auth/jwt -s "$plugins" "127.0.0.1:$REST_PORT" unix:/cluster/run/rest/sock
    ;;
  n*)
    mkdir -p "/cluster/slurmd/$1"
    launch "$1" root slurmd -D -N "$1"
    ;;
  esac
}

if [ "${1:-}" = start ]; then
  start "$2"
  exit
fi

echo slurmctl >/proc/sys/kernel/hostname
if [ "$ACCOUNTING_PORT" != 0 ]; then
  database || exit 1
  start slurmdbd
  await slurmdbd "$ACCOUNTING_PORT" || exit 1
fi
start slurmctld
# slurmd and slurmrestd give up if slurmctld isn't there yet.
await slurmctld "$CONTROLLER_PORT" || exit 1
for ((i = 1; i <= NODES; i++)); do start "n$i"; done
start slurmrestd
while :; do
  wait
  sleep 0.2
done
