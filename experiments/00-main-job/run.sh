#!/bin/sh
# The main job: which layout for Qwen3-32B with Muon on 8 nodes of A100, and at what step time and memory?
cd "$(dirname "$0")/../.." || exit 1
mkdir -p build/compare
exec build/ballast compare qwen3-32b --cluster dgx-a100 --nodes 8 --optimizer muon \
    --state-dtype bf16 --master-weights no --plot build/compare
