#!/usr/bin/env bash
# How long a worker takes from the order to the first byte of its prompt, against bubblewrap (`bwrap`) running the same
# program, turn by turn so that both meet the same load. Prints one line of JSON; the ratio of the medians must be at
# most 2.
#
# What each does in that time: bubblewrap makes namespaces and mounts and executes `/bin/sh -i` on a terminal made
# before. stockade also starts its launcher (this executable again), re-hashes the specification, makes a private
# terminal inside, enters Landlock and seccomp, measures all of it and reports it over two processes.
#
#   tests/bench/native_vs_bwrap.sh [ROUNDS]     default 200; needs `bwrap` (apt-get install bubblewrap)
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v bwrap >/dev/null || { echo "bwrap is missing: apt-get install bubblewrap" >&2; exit 2; }
cargo build --quiet --locked --release --example host
result=$(target/release/examples/host bench "${1:-200}")
echo "$result"
python3 -c 'import json, sys; sys.exit(json.loads(sys.argv[1])["ratio_of_medians"] > 2)' "$result"
