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

start() {
  case $1 in
  slurmctld) launch slurmctld slurm slurmctld -D -i ;;
  slurmrestd)
    # The socket is made in a folder that the user may write to.
    mkdir -p /cluster/run/rest && chown slurmrest /cluster/run/rest
    launch slurmrestd slurmrest env SLURM_JWT=daemon SLURMRESTD_DEBUG=error SLURMRESTD_JSON=compact MALLOC_ARENA_MAX=2 \
      slurmrestd -t 16 -a rest_auth/jwt -s slurmctld,util "127.0.0.1:$REST_PORT" unix:/cluster/run/rest/sock
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
start slurmctld
# slurmd and slurmrestd give up if slurmctld isn't there yet.
until (exec 3<>"/dev/tcp/127.0.0.1/$CONTROLLER_PORT") 2>/dev/null; do
  kill -0 "$(cat /cluster/run/slurmctld.pid)" 2>/dev/null || exit 1
  sleep 0.02
done
for ((i = 1; i <= NODES; i++)); do start "n$i"; done
start slurmrestd
while :; do
  wait
  sleep 0.2
done
