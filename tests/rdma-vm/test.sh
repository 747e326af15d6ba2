#!/bin/sh
# Inside a virtual machine with the devices rdma0 and rdma1, at both ends of a cable: the tests of
# connections; over RC, and over UC, the suite that all providers pass, and jobs.
set -eu
PANGEA_TEST_VERBS=1 /job/verbs --test-threads=1

for kind in rc uc; do
  echo "== over $kind"
  export PANGEA_VERBS=$kind
  for scenario in atomics bulk frozen names spread ways; do
    pangea run -n 2 --path verbs --require rdma -- test-node $scenario
    echo "job $scenario over $kind: ok"
  done
  # One at a time, as they poll.
  PANGEA_REQUIRE=rdma /job/suite conformance::found --test-threads=1
done
