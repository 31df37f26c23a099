#!/bin/bash
# Installs the build into a fresh prefix, compiles every header as others include it, builds examples/ against it by CMake and
# by pkg-config, with the static and the shared library, and runs the results on a checkpoint that the installed program made.
#   install_test.sh SOURCE BUILD CXX
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

# The headers: below lshformer/ alone; lshformer.h has the whole door, about twenty, and nothing else; nothing is installed that
# the door does not reach; each compiles before and after all others.
include=$work/prefix/include
[[ $(ls "$include") == lshformer ]] || fail "include/ has $(ls "$include")"
mkdir "$work/headers"
quoted() { sed -n 's/^ *# *include "\(.*\)"/\1/p' "$@" | sort -u; }
door=$(cd "$include" && ls lshformer/*.h | grep -v '/lshformer.h$')
(($(wc -w <<<"$door") <= 25)) || fail "the door has $(wc -w <<<"$door") headers"
[[ $(quoted "$include/lshformer/lshformer.h") == "$(sort <<<"$door")" ]] || fail "lshformer.h does not include the door"
installed=$(cd "$include" && find lshformer -name '*.h' | sort)
reached=$(cd "$include" && xargs sed -n 's/^ *# *include "\(.*\)"/\1/p' <<<"$installed" | sort -u)
[[ $(grep -v '/lshformer.h$' <<<"$installed") == "$reached" ]] || fail "headers that nobody includes, or includes of none:
$(diff <(echo "$installed") <(echo "$reached"))"
{ echo lshformer/lshformer.h; grep -v '/lshformer.h$' <<<"$installed"; } | sed 's/.*/#include <&>/' >"$work/headers/names"
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
consumer() {  # configures and builds the project in folder $1 against the installed library, into $2; $3…: CMake's options
  cmake -S "$1" -B "$2" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_BUILD_TYPE=Release "${@:3}" >"$work/configure.log" 2>&1 || { cat "$work/configure.log"; fail "configure $1"; }
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
consumer "$source_folder/examples" "$work/example_shared" -DLSHFORMER_SHARED=ON
# By pkg-config the shared library is linked, which stands first; with it the archive by its file's name.
library=$(dirname "$(find "$work/prefix" -name 'liblshformer.so')")
export PKG_CONFIG_PATH=$library/pkgconfig
read -ra flags < <(pkg-config --cflags lshformer)
"$compiler" -std=c++20 -O0 "${flags[@]}" -c "$source_folder/examples/encode.cc" -o "$work/encode.o"
read -ra libraries < <(pkg-config --libs lshformer)
"$compiler" "$work/encode.o" "${libraries[@]}" -o "$work/encode_shared"
read -ra libraries < <(pkg-config --libs --static lshformer | sed 's/-llshformer/-l:liblshformer.a/')
"$compiler" "$work/encode.o" "${libraries[@]}" -o "$work/encode_static"

# The shared library: its soname has the minor version, and no other library's names are to be linked from it.
soname=liblshformer.so.$(pkg-config --modversion lshformer | cut -d. -f1,2)
[[ $(readelf -d "$library/liblshformer.so") == *"[$soname]"* ]] || fail "the soname is not $soname"
others=$(nm -D --extern-only --defined-only --demangle "$library/liblshformer.so" | cut -d' ' -f3- | grep -v 'lshformer::' || true)
[[ -z $others ]] || fail "liblshformer.so exports names of others: $others"
linked() { [[ $(LD_LIBRARY_PATH=$library ldd "$1") == *"$soname"* ]]; }
for program in example_shared/encode example_shared/train_classifier encode_shared; do
  linked "$work/$program" || fail "$program does not link the shared library"
done
for program in example/encode example/train_classifier encode_static prefix/bin/lshformer; do
  if linked "$work/$program"; then fail "$program links the shared library"; fi
done

# The examples and the program must agree, number for number: shortest decimals are off by half the distance of two floats.
"$work/example/encode" "$work/run" "a few words" >"$work/encoded"
for program in example_shared/encode encode_static encode_shared; do
  LD_LIBRARY_PATH=$library "$work/$program" "$work/run" "a few words" >"$work/again" || fail "$program does not run"
  cmp "$work/encoded" "$work/again" || fail "$program gives other numbers"
done
"$lshformer" --quiet predict --task feature-extraction --model_name_or_path "$work/run" --pooling mean --normalize \
  --text "a few words" | sed 's/.*\[//; s/\].*//' | tr ',' '\n' >"$work/predicted"
for file in encoded predicted; do
  [[ $(wc -l <"$work/$file") == 32 ]] || fail "$file: expected 32 numbers, got $(wc -l <"$work/$file")"
done
paste "$work/encoded" "$work/predicted" | awk '{ d = $1 - $2; m = $1 < 0 ? -$1 : $1; if (d * d > (6e-8 * m) ^ 2) exit 1 }' ||
  fail "the example says $(tr '\n' ' ' <"$work/encoded"), the program $(tr '\n' ' ' <"$work/predicted")"
if "$work/example/encode" "$work/nothing" x 2>"$work/error"; then fail "a missing folder went unnoticed"; fi
grep -q nothing "$work/error" || fail "the error does not name the folder: $(cat "$work/error")"

# A program that trains, with the shared library: what it leaves is a folder that the installed program evaluates to the same accuracy.
mkdir "$work/reviews"
LD_LIBRARY_PATH=$library "$work/example_shared/train_classifier" "$work/reviews" >"$work/trained" 2>"$work/error" || fail "$(cat "$work/error")"
accuracy=$(sed -n 's/^accuracy //p' "$work/trained")
awk -v a="$accuracy" 'BEGIN { exit a > 0.8 ? 0 : 1 }' || fail "the classifier guesses: $(cat "$work/trained")"
grep -q '^{"results": *\[{"label": *"1"' "$work/trained" || fail "a superb film is not liked: $(cat "$work/trained")"
evaluated=$("$lshformer" --quiet evaluate --model_name_or_path "$work/reviews/model" --validation_file "$work/reviews/dev.tsv" |
  sed -n 's/.*"eval_accuracy": *\([0-9.]*\).*/\1/p')
awk -v a="$accuracy" -v b="$evaluated" 'BEGIN { exit (a - b) ^ 2 < 1e-6 ? 0 : 1 }' ||
  fail "the example says $accuracy, the program $evaluated"
