#!/usr/bin/env bash
# The verbs on real kernel code: soft-RoCE devices at both ends of a cable, in a small virtual
# machine. Runs tests there, of connections, of the suite that all providers pass and of jobs, over
# RC and over UC; with --bench [ROUNDS [OPERATIONS]], operations beside perftest's.
# The command that starts the machine is $RDMA_VM, by default that of the folder beside this one.
set -euo pipefail
cd "$(dirname "$0")/.."
vm=${RDMA_VM:-$(cd ../shared && pwd)/scripts/rdma-vm}

# What the emulator is slow at, a processor without it is not: copies by `rep movs`, and checksums by
# an instruction, which take three times as long there as by a table.
processor=max,-erms,-fsrm,-sse4.2

# built ARGUMENTS..: builds, by `cargo ARGUMENTS`, and prints where each program is.
built() {
  cargo "$@" --release --message-format json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}

# program NAME: which of the programs has that name, or that and a hash.
program() { grep -E "/$1(-[0-9a-f]{16})?\$" <<<"$programs" | head -n 1; }

if [ "${1:-}" = --bench ]; then
  programs=$(built build -p pangea-cli -p pangea-rdma --bin pangea --example verbs_bench)
  exec "$vm" run --topo veth --cpu $processor --timeout 600 --file "$(program pangea):/bin/pangea" \
    --file "$(program verbs_bench):/bin/verbs_bench" \
    --file tests/rdma-vm/bench.sh -- sh /job/bench.sh "${@:2}"
fi

programs=$(built build -p pangea-cli -p pangea-tests --bin pangea --bin test-node &&
  built test -p pangea-rdma --lib --test verbs --no-run)
"$vm" run --topo veth --cpu $processor --timeout 900 --file "$(program pangea):/bin/pangea" \
  --file "$(program test-node):/bin/test-node" --file "$(program verbs):/job/verbs" \
  --file "$(program pangea_rdma):/job/suite" --file tests/rdma-vm/test.sh -- sh /job/test.sh
