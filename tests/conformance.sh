#!/usr/bin/env bash
# The suite that all providers pass, over UC on the fake Thunderbolt, whole and losing frames; on
# real kernel verbs, `tests/rdma-vm.sh` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(cargo test -p pangea-rdma --lib --no-run --message-format json |
  grep '"name":"pangea_rdma"' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
# One at a time, as a device has ten queue pairs; without RDMA they fail.
suite=(conformance::found conformance::mixed --test-threads=1)

library=$(cargo build -p pangea-fake-thunderbolt --message-format json |
  grep -o '[^"]*/libpangea_fake_thunderbolt.\(so\|dylib\)' | head -n 1)
cables=$(mktemp -d)
trap 'rm -r "$cables"' EXIT
for loss in 0 0.01; do
  PANGEA_REQUIRE=rdma PANGEA_VERBS_LIBRARY=$library PANGEA_FAKE_TB_LOSS=$loss \
    PANGEA_FAKE_TB_DIR=$cables PANGEA_FAKE_TB_HOST=0 PANGEA_FAKE_TB_CABLES=0.en2-0.en3 \
    "$program" "${suite[@]}"
done
