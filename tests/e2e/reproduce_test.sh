#!/bin/bash
# The quick form of some recipes as a user runs them: reproduce_test.sh LSHFORMER. A minute on two cores.
# Stopped in the middle and started again, they end with every page, number and verdict; a third time nothing is run.
set -euo pipefail
lshformer=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "reproduce: $*" >&2
  exit 1
}

all() {
  local recipe
  for recipe in bert-lsh/table-1 bert-lsh/fig-3-radar bert-lsh/fig-2 ours/memory; do
    "$lshformer" reproduce $recipe --quick --no_progress --output_dir "$folder/out" > "$folder/$(basename $recipe).txt"
  done
}

timeout --foreground --signal INT 5 "$lshformer" reproduce bert-lsh/fig-3-radar --quick --no_progress --output_dir "$folder/out" \
  > /dev/null 2> "$folder/stopped" && fail "was done in five seconds; stop it sooner"
all
for recipe in bert-lsh/table-1 bert-lsh/fig-3-radar bert-lsh/table-2 ours/memory; do
  for file in results.json report.html report.md figure-1.svg; do
    [[ -s $folder/out/$recipe/$file ]] || fail "$recipe/$file is not there"
  done
done
grep -q "bert-lsh/fig-2 is part of bert-lsh/table-2" "$folder/fig-2.txt" || fail "an alias is not told"
grep -q "holds" "$folder/table-1.txt" || fail "no verdict in table-1"
[[ $(ls -d "$folder"/out/runs/pretrain-*.flags.json | wc -l) == 2 ]] || fail "what two recipes need was not run once"
ls -l --time-style=full-iso "$folder"/out/runs/*.json > "$folder/before"
all
ls -l --time-style=full-iso "$folder"/out/runs/*.json | cmp - "$folder/before" || fail "a finished run was made again"

# From a page back to a file, and from the file to another page.
file=$(grep -o '"file": "[^"]*all_results.json"' "$folder/out/bert-lsh/table-2/results.json" | head -1 | cut -d'"' -f4)
sed -i 's/"perplexity": [0-9.]*/"perplexity": 1234.5/' "$file"
"$lshformer" reproduce bert-lsh/table-2 --quick --no_progress --output_dir "$folder/out" > /dev/null
grep -q 1234 "$folder/out/bert-lsh/table-2/report.html" || fail "the page does not say what the file says"
