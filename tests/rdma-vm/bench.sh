#!/bin/sh
# Inside a virtual machine with the devices rdma0 and rdma1: our operations beside perftest's, in
# turn, several rounds. Prints "figure ours perftest" a line; microseconds, or MB/s. What is called
# connection.* is our verbs alone, in one process; what is called rc.* and uc.* is a job of two
# nodes, through the whole runtime.
rounds=${1:-3} count=${2:-1000}
port=18600

# perftest PROGRAM ARGUMENTS..: its median, or its average bandwidth.
perftest() {
  port=$((port + 1))
  "$@" -d rdma0 -x 1 -F -n "$count" -p $port >/tmp/server 2>&1 &
  server=$!
  tries=0
  while ! ss -Hltn | grep -q ":$port "; do
    tries=$((tries + 1)); [ $tries -lt 100 ] || break; sleep 0.05
  done
  "$@" -d rdma1 -x 1 -F -n "$count" -p $port 10.77.0.1 >/tmp/client 2>&1 || cat /tmp/client >&2
  wait $server
  awk '/t_typical/ { getline; print $5; exit } /BW average/ { getline; print $4 * 1.048576; exit }' \
    /tmp/client
}

# job KIND: measures all figures of a job over RC or UC.
job() { PANGEA_VERBS=$1 pangea bench --json verbs >/tmp/figures 2>/tmp/job || cat /tmp/job >&2; }

# figure NAME: the value of one of them.
figure() { sed -n "s/.*\"name\":\"$1\",\"value\":\([0-9.]*\).*/\1/p" /tmp/figures; }

# twice NUMBER, megabytes NUMBER (of GB).
twice() { awk -v one="$1" 'BEGIN { print 2 * one }'; }
megabytes() { awk -v one="$1" 'BEGIN { print 1000 * one }'; }

round=0
while [ $round -lt "$rounds" ]; do
  read=$(perftest ib_read_lat -s 8)
  add=$(perftest ib_atomic_lat -A FETCH_AND_ADD)
  bandwidth=$(perftest ib_read_bw -s 65536)
  frame=$(perftest ib_send_lat -c UC -s 4096)
  echo "connection.read $(verbs_bench read "$count") $read"
  echo "connection.write $(verbs_bench write "$count") $(perftest ib_write_lat -s 8)"
  echo "connection.add $(verbs_bench add "$count") $add"
  echo "connection.bandwidth $(verbs_bench bandwidth "$count") $bandwidth"
  echo "connection.frame $(verbs_bench send "$count") $frame"
  job rc
  echo "rc.get $(figure verbs.get.awake) $read"
  echo "rc.add $(figure verbs.add) $add"
  echo "rc.bandwidth $(megabytes "$(figure verbs.read)") $bandwidth"
  job uc
  echo "uc.get.page $(figure verbs.get.page) $(twice "$frame")"
  echo "uc.bandwidth $(megabytes "$(figure verbs.read)") $(perftest ib_send_bw -c UC -s 4096)"
  round=$((round + 1))
done
