#!/bin/sh
# Spearman's correlation on STS-B of a sentence encoder with exact and with SimHash attention, and the share of pairs seen:
#   bench/embeddings.sh MODEL_DIR STSB_DIR [more flags of evaluate]
# One JSON object a line; docs/results has the table. LSHFORMER names the program, SEEDS the seeds of the hash planes,
# FILLS, HASHES and BANDS the settings.
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# *//p' "$0" >&2; exit 2; }
model=$1 data=$2
shift 2
evaluate() {  # ATTENTION [FLAGS]
    attention=$1
    shift
    "${LSHFORMER:-lshformer}" evaluate --no_progress --task sentence-similarity --task_name stsb --data_dir "$data" \
        --model_name_or_path "$model" --attention "$attention" "$@" | tr -d '\n ' |
        sed "s|^|{\"attention\":$attention,\"result\":|; s|\$|}\n|"
}
evaluate '{"type":"dense"}' "$@"
for fill in ${FILLS:-zero mean none}; do
    for hashes in ${HASHES:-1 2 4}; do
        for bands in ${BANDS:-2 3 4 5 6 7 8}; do
            for seed in ${SEEDS:-0}; do
                evaluate "{\"type\":\"simhash\",\"fill\":\"$fill\",\"hashes\":$hashes,\"bands\":$bands,\"seed\":$seed}" "$@"
            done
        done
    done
done
