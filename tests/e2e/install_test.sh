#!/bin/bash
# Installs the build into a fresh prefix, compiles every header as others include it, builds examples/ against it with
# find_package and runs the result on a checkpoint that the installed program made.   install_test.sh SOURCE BUILD CXX
set -euo pipefail
source_folder=$1 build_folder=$2 compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'install_test: %s\n' "$*"; exit 1; }

cmake --install "$build_folder" --prefix "$work/prefix" >"$work/install.log"
lshformer=$work/prefix/bin/lshformer
DESTDIR=$work/staged cmake --install "$build_folder" --prefix /usr >"$work/install.log"
diff -r "$work/prefix/include" "$work/staged/usr/include" || fail "with DESTDIR other headers are installed"
[[ $("$lshformer" --version) == "lshformer "* ]] || fail "the installed program does not run"

# The headers: below lshformer/ alone, nothing private, and each compiles before and after all others.
include=$work/prefix/include
[[ $(ls "$include") == lshformer ]] || fail "include/ has $(ls "$include")"
private=$(find "$include" -name '*-inl.h' -o -path '*/kernels/cpu/*' -o -path '*/kernels/ref/*' -o -path '*/cli/*')
[[ -z $private ]] || fail "private headers are installed: $private"
mkdir "$work/headers"
sed -n 's/^#include "\(.*\)"/#include <\1>/p' "$include/lshformer/lshformer.h" >"$work/headers/names"
installed=$(cd "$include" && find lshformer -name '*.h' ! -name lshformer.h | sort)
[[ $(sed 's/.*<\(.*\)>/\1/' "$work/headers/names" | sort) == "$installed" ]] || fail "lshformer.h does not include all headers"
own='#if __has_include("base/error.h") || __has_include("io/gzip.h")
#error "a folder of the library is in the include path of its users"
#endif'
{ echo "$own"; cat "$work/headers/names"; } >"$work/headers/forward.cc"
{ echo "$own"; tac "$work/headers/names"; echo "static_assert(LSHFORMER_VERSION_MAJOR >= 0 && sizeof(LSHFORMER_VERSION) > 5);"; } \
  >"$work/headers/backward.cc"
cat >"$work/headers/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(headers LANGUAGES CXX)
find_package(lshformer REQUIRED)
add_library(headers OBJECT forward.cc backward.cc)
target_link_libraries(headers PRIVATE lshformer::lshformer)
target_compile_options(headers PRIVATE -O0)
END
consumer() {  # configures and builds the project in folder $1 against the installed library, into $2
  cmake -S "$1" -B "$2" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" 2>&1 || { cat "$work/configure.log"; fail "configure $1"; }
  cmake --build "$2" >"$work/build.log" 2>&1 || { cat "$work/build.log"; fail "build $1"; }
}
consumer "$work/headers" "$work/headers/build"

# Two epochs of nothing much: what counts is a folder in the layout of every checkpoint.
"$lshformer" --quiet synth --output "$work/text.txt" --task text --seed 1 --words 4000
"$lshformer" --quiet tokenizer train --type wordpiece --input "$work/text.txt" --vocab_size 300 --output_dir "$work/model"
"$lshformer" --quiet pretrain --model_type bert --tokenizer_name "$work/model" --train_file "$work/text.txt" --max_steps 1 \
  --config_overrides "hidden_size=32,num_hidden_layers=1,num_attention_heads=2,intermediate_size=64" \
  --max_seq_length 64 --output_dir "$work/run"

consumer "$source_folder/examples" "$work/example"

# The example and the program must agree, number for number: shortest decimals are off by half the distance of two floats.
"$work/example/encode" "$work/run" "a few words" >"$work/encoded"
"$lshformer" --quiet predict --task feature-extraction --model_name_or_path "$work/run" --pooling mean --normalize \
  --text "a few words" | sed 's/.*\[//; s/\].*//' | tr ',' '\n' >"$work/predicted"
for file in encoded predicted; do
  [[ $(wc -l <"$work/$file") == 32 ]] || fail "$file: expected 32 numbers, got $(wc -l <"$work/$file")"
done
paste "$work/encoded" "$work/predicted" | awk '{ d = $1 - $2; m = $1 < 0 ? -$1 : $1; if (d * d > (6e-8 * m) ^ 2) exit 1 }' ||
  fail "the example says $(tr '\n' ' ' <"$work/encoded"), the program $(tr '\n' ' ' <"$work/predicted")"
if "$work/example/encode" "$work/nothing" x 2>"$work/error"; then fail "a missing folder went unnoticed"; fi
grep -q nothing "$work/error" || fail "the error does not name the folder: $(cat "$work/error")"

# A program that trains: what it leaves is a folder that the installed program evaluates to the same accuracy.
mkdir "$work/reviews"
"$work/example/train_classifier" "$work/reviews" >"$work/trained" 2>"$work/error" || fail "$(cat "$work/error")"
accuracy=$(sed -n 's/^accuracy //p' "$work/trained")
awk -v a="$accuracy" 'BEGIN { exit a > 0.8 ? 0 : 1 }' || fail "the classifier guesses: $(cat "$work/trained")"
grep -q '^{"results": *\[{"label": *"1"' "$work/trained" || fail "a superb film is not liked: $(cat "$work/trained")"
evaluated=$("$lshformer" --quiet evaluate --model_name_or_path "$work/reviews/model" --validation_file "$work/reviews/dev.tsv" |
  sed -n 's/.*"eval_accuracy": *\([0-9.]*\).*/\1/p')
awk -v a="$accuracy" -v b="$evaluated" 'BEGIN { exit (a - b) ^ 2 < 1e-6 ? 0 : 1 }' ||
  fail "the example says $accuracy, the program $evaluated"
