#!/bin/sh
# gpu-bundle.sh [small] - build/gpu-bundle: a folder that runs on a machine with an NVIDIA GPU and nothing else of ours:
# ballast-exec with cJSON inside (see the Makefile), the cuda backend, libraries that are neither glibc's nor the GPU's, the kernels' sources, cJSON's
# header, which has its licence, plans and gpu-check.sh. `small`: plans that a CPU can run, for the test of the script.
set -e
build=${BUILD:-build}
to=$build/gpu-bundle
rm -rf "$to"
mkdir -p "$to/plans" "$to/lib" "$to/src"
cp tools/gpu-check.sh "$to"
cp "$build/gpu-bundle-exec" "$to/ballast-exec"
for so in "$build"/ballast-cuda.so "$build"/ballast-blas.so; do [ -e "$so" ] && cp "$so" "$to"; done
cp kernels/*.cu kernels/*.cuh kernels/*.h exec/lib_cuda.c exec/cuda_* kernels/cuda_*.c "$to/src" 2>/dev/null || true
cp "$(echo '#include <cjson/cJSON.h>' | ${CC:-gcc} -M -x c - | grep -o '/[^ ]*/cJSON\.h' | head -n 1)" "$to/src"
# what the loader needs of them
for f in "$to/ballast-exec" "$to"/ballast-cuda.so; do
    [ -e "$f" ] || continue
    ldd "$f" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
        grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*|libcublas[^/]*|libcudart[^/]*)\.so' |
        while read -r l; do cp -L "$l" "$to/lib/"; done
done
plan() { # file, arguments...
    file=$1
    shift
    "$build/ballast" plan "$@" -o "$to/plans/$file" >/dev/null
}
if [ "$1" = small ]; then
    llama=block:layers=1,hidden=64,ffn=160,heads=4,kv-heads=2,mlp=swiglu,vocab=200
    gpt=block:layers=1,hidden=64,ffn=160,heads=4,mlp=gelu,vocab=200
    plain=block:layers=1,hidden=64,ffn=160,heads=4
    big=$llama wide=$llama many=$llama w=4 seq=32
else
    llama=block:layers=1,hidden=384,ffn=1024,heads=6,kv-heads=2,mlp=swiglu,vocab=2048
    gpt=block:layers=1,hidden=384,ffn=1536,heads=6,mlp=gelu,vocab=2048
    plain=block:layers=1,hidden=384,ffn=1000,heads=6
    wide=block:layers=1,hidden=1024,ffn=3072,heads=16,kv-heads=8,mlp=swiglu,vocab=16384 # of a 0.6 B model
    big=block:layers=2,hidden=4096,ffn=14336,heads=32,kv-heads=8,mlp=swiglu,vocab=32000 many=qwen3-8b w=64 seq=512
fi
fp32='--param-dtype fp32 --grad-dtype fp32 --master-weights no'
plan probe.json "$plain" --gpus 1 -l ddp --seq-len 16
for d in fp32 bf16 fp16; do
    plan shadow-llama-muon-$d.json "$llama" --gpus 1 -l ddp --seq-len $seq --param-dtype $d --grad-dtype $d
done
plan shadow-wide-muon-bf16.json "$wide" --gpus 1 -l ddp --seq-len $seq
plan shadow-gpt-shampoo-bf16.json "$gpt" --gpus 1 -l ddp --seq-len $seq --optimizer shampoo
plan shadow-block-soap-fp32.json "$plain" --gpus 1 -l ddp --seq-len $seq --optimizer soap $fp32
plan shadow-gpt-adamw-fp16.json "$gpt" --gpus 1 -l ddp --seq-len $seq --optimizer adamw --param-dtype fp16 --grad-dtype fp16
moe=$to/plans/moe.config
printf '%s\n' '{"model_type": "mixtral", "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96,' \
    '"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4,' \
    '"num_experts_per_tok": 2, "tie_word_embeddings": false}' >"$moe"
plan shadow-moe-muon-bf16.json "$moe" --gpus 1 -l ddp --seq-len $seq
plan check-owner-muon.json "$llama" --gpus 1 -l owner --seq-len $seq
plan check-zero3-muon.json "$llama" --gpus 1 -l zero3+gather --seq-len $seq $fp32
plan owners-$w.json $many --gpus $w -l owner --seq-len 64
plan replay-ddp.json "$big" --gpus 1 -l ddp --seq-len $((4 * seq))
rm -f "$moe"
if ldd "$to/ballast-exec" | grep -q libcjson; then
    echo "$to: libcjson is beside ballast-exec, in lib/: neither libcjson.a nor its source here; CJSON_C=path/to/cJSON.c links it in"
fi
rmdir "$to/lib" 2>/dev/null || true
size=$(du -sk "$to" | cut -f1)
echo "$to: $((size / 1024)) MiB"
[ "$size" -le 61440 ] || { echo 'gpu-bundle: more than 60 MiB' >&2; exit 1; }
