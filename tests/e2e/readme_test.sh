#!/bin/bash
# Runs every command of the examples in README and docs/examples.md, and of docs/commands.md and docs/data.md, on the
# folder that quickstart left, in the order in which they stand. Each must end with status 0, unless the CPU lacks the
# instructions that it asks for; where the next line is a comment "# → TEXT", the command must print TEXT.
#   readme_test.sh SOURCE PROGRAM QUICKSTART…: the first of these folders that is there
set -uo pipefail
source_folder=$1 program=$2 quickstart=
for folder in "${@:3}"; do
  [[ -z $quickstart && -f $folder/report.html ]] && quickstart=$folder
done
if [[ -z $quickstart ]]; then
  echo "skipped: there is no finished quickstart; ./run quickstart makes one"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$quickstart" "$work/quickstart"
mkdir "$work/bin"
ln -s "$program" "$work/bin/lshformer"
PATH=$work/bin:$PATH
cd "$work" || exit 1

# What the pages name without making it.
prepare() {
  cp -r quickstart/pretrain-exact DIR
  echo '{"text": "Karla is a [MASK] along the river.", "id": 7}' >lines.jsonl
  echo '{"input_ids": [2, 4, 3], "labels": [-100, 9, -100]}' >batch.jsonl
  printf '%s\n' '{"text": "a red car", "labels": ["red", "car"]}' '{"text": "no", "labels": []}' >sets.jsonl
  cp corpus.txt text.txt
  cp run3/predictions.json .
  cp asked.json dev.json
  local header='{"query":{"dtype":"F32","shape":[4,1,2],"data_offsets":[0,32]},"value":{"dtype":"F32","shape":[4,1,2],"data_offsets":[32,64]}}'
  printf '%b' "\\x$(printf %x ${#header})\\0\\0\\0\\0\\0\\0\\0" >in.safetensors
  printf '%s' "$header" >>in.safetensors
  head -c 64 /dev/zero >>in.safetensors
}

commands=0 failures=0
run() {  # $1: file, $2: a whole command, $3: what it must print, or nothing
  local out status
  commands=$((commands + 1))
  out=$(bash -c "$2" 2>"$work/stderr" </dev/null)
  status=$?
  if ((status == 2)) && [[ $2 =~ --(int8|bf16) && $(cat "$work/stderr") == *"this CPU has no"* ]]; then
    printf '%s: this CPU lacks the instructions of: %s\n' "$1" "$2"
  elif ((status != 0)); then
    failures=$((failures + 1))
    printf '%s: status %s of: %s\n%s\n' "$1" "$status" "$2" "$(cat "$work/stderr")"
  elif [[ -n $3 && $out != *"$3"* ]]; then
    failures=$((failures + 1))
    printf '%s: "%s" is not in what this prints: %s\n%s\n' "$1" "$3" "$2" "${out:0:2000}"
  fi
}

run_page() {  # $1: file, $2: awk program that prints its lines of shell
  local command="" pending="" line
  while IFS= read -r line; do
    if [[ $line == "# → "* ]]; then
      [[ -n $pending ]] || { echo "$1: \"$line\" follows no command"; failures=$((failures + 1)); }
      run "$1" "$pending" "${line#"# → "}"
      pending=""
      continue
    fi
    [[ $line == "#"* || -z $line ]] && continue
    [[ -n $pending ]] && run "$1" "$pending" ""
    pending=""
    if [[ $line == *\\ ]]; then
      command+=${line%\\}
      continue
    fi
    pending=$command$line command=""
  done < <(awk "$2" "$source_folder/$1")
  [[ -n $pending ]] && run "$1" "$pending" ""
}

shell='/^```/ { inside = /^```sh/; next } inside && !/^\.\/run/'
run_page README.md "$shell"
run_page docs/examples.md "$shell"
# What is asked in the README is answered: most of its questions rightly.
right=$(lshformer predict --model_name_or_path quickstart/questions-exact --task question-answering --input quickstart/ask.jsonl |
  grep -cE '"id": *"([^"]*)".*"results": *\[\{[^}]*"answer": *"\1"')
((right >= 3)) || { echo "README.md: $right of 5 questions are answered rightly"; failures=$((failures + 1)); }
prepare
for page in docs/commands.md docs/data.md; do
  run_page "$page" '/^    (lshformer|echo)/, !/\\$/ { sub(/^ +/, ""); print }'
done
printf '%s commands, %s failed\n' "$commands" "$failures"
((commands > 25 && failures == 0))
