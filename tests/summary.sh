#!/bin/bash
# What a run of ctest came to: every skipped test case with its reason, every failed one, and a last line of sums.
#   summary.sh BUILD_FOLDER      reads its test_results/, where ctest left tests.xml and each suite its cases
set -euo pipefail
results=$1/test_results

# One line a tag.
tags() { tr '\n' ' ' <"$1" | sed 's/</\n</g'; }
text_of() { sed 's/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&apos;/'"'"'/g; s/&amp;/\&/g'; }

{
  tags "$results/tests.xml" | awk '/^<testcase /{
    match($0, / name="[^"]*"/); name = substr($0, RSTART + 7, RLENGTH - 8)
    match($0, / status="[^"]*"/); print name "\t" substr($0, RSTART + 9, RLENGTH - 10) }' |
  while IFS=$'\t' read -r name status; do
    file=$results/${name//\//-}.xml
    if [[ -f $file ]]; then
      # passed, failed or skipped, name, reason
      tags "$file" | awk -v program="${name%%.*}" -v status="$status" '
        function attribute(key) { return match($0, " " key "=\"[^\"]*\"") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 4) : "" }
        function finish() { if (name != "") { print state "\t" program "." name "\t" reason; failed += state == "failed" } name = "" }
        /^<testcase /{ finish(); name = attribute("classname") "." attribute("name"); state = "passed"; reason = "" }
        /^<skipped/{ state = "skipped"; reason = attribute("message"); sub(/^[^&]*&#x0A;/, "", reason); gsub(/&#x0A;/, " ", reason) }
        /^<failure/{ state = "failed" }
        END { finish(); if (status == "fail" && failed == 0) print "failed\t" program "\tended without a result" }'
    elif [[ $status == run ]]; then
      printf 'passed\t%s\t\n' "$name"
    elif [[ $status == fail ]]; then
      printf 'failed\t%s\tended without a result\n' "$name"
    else
      printf 'skipped\t%s\t%s\n' "$name" "not run by ctest"
    fi
  done
} | text_of | awk -F '\t' '
  { count[$1]++ }
  $1 == "failed" { failures = failures "  " $2 ($3 == "" ? "" : ": " $3) "\n" }
  $1 == "skipped" {
    if (!($3 in cases)) reasons[++n] = $3
    if (++cases[$3] <= 3) names[$3] = names[$3] (cases[$3] == 1 ? "" : ", ") $2
  }
  END {
    if (n) print "skipped:"
    for (i = 1; i <= n; ++i) {
      reason = reasons[i]
      others = cases[reason] <= 3 ? "" : sprintf(" and %d more", cases[reason] - 3)
      printf("  %d: %s (%s%s)\n", cases[reason], reason, names[reason], others)
    }
    if (failures != "") printf("failed:\n%s", failures)
    printf("%d passed, %d failed, %d skipped\n", count["passed"], count["failed"], count["skipped"])
  }'
