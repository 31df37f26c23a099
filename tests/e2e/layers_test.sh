#!/bin/bash
# LSHFORMER_LAYERS: what is built of some of the layers asks for the packages of these alone. Configures and builds nothing.
#   layers_test.sh SOURCE CXX
set -euo pipefail
source_folder=$1 compiler=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'layers_test: %s\n' "$*"; exit 1; }
configure() {  # folder below $work, value of LSHFORMER_LAYERS
  cmake -S "$source_folder" -B "$work/$1" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DLSHFORMER_LAYERS="$2" >"$work/log" 2>&1
}
programs() { ninja -C "$work/$1" -t targets all | grep -oE "^[a-z_]+_(test|fuzz): phony$" | grep -v ^cmake_ | cut -d: -f1 | sort | tr "\n" " "; }

configure kernels kernels || { cat "$work/log"; fail "the kernels cannot be configured"; }
asked=$(grep -E '^(TORCH|DNNL|ICU|ZLIB|SENTENCEPIECE|CLI11)_' "$work/kernels/CMakeCache.txt" || true)
[[ -z $asked ]] || fail "the kernels alone ask for $asked"
[[ $(programs kernels) == "amx_access_test attention_test base_test kernels_test source_rules_test " ]] ||
  fail "the kernels' tests are $(programs kernels)"

configure text 'report;text' || { cat "$work/log"; fail "report and text cannot be configured"; }
[[ $(programs text) == "amx_access_test attention_test base_test kernels_test report_test source_rules_test text_test " ]] ||
  fail "the tests of report and text are $(programs text)"
asked=$(grep -E '^(TORCH|DNNL|ZLIB|CLI11)_' "$work/text/CMakeCache.txt" || true)
[[ -z $asked ]] || fail "report and text ask for $asked"

if configure wrong 'text;kernel'; then fail "an unknown layer went unnoticed"; fi
tr -s ' \n' ' ' <"$work/log" | grep -qF 'LSHFORMER_LAYERS: unknown layer "kernel"; expected all or a list of: base attention kernels' ||
  { cat "$work/log"; fail "the error does not list the layers"; }
