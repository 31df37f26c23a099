// What a data file holds, by its name, and the mark that some editors put before UTF-8 text.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json.h"

namespace lshformer {

// "runs/Train.TSV.gz" → "tsv"; lower case; "" without an extension.
std::string DataExtension(std::string_view path);
bool IsJsonLines(std::string_view path);  // .jsonl, .ndjson or .json
// Rows of JSON: by the name, else by what the file begins with, which is an object or a list of objects or lists. What
// can be read once alone, a pipe or stdin, can then still be read from its beginning.
bool HoldsJson(const std::string& path);
bool IsTable(std::string_view path);  // .tsv or .csv
// Error where a name ends as a table's, whose header and labels would be taken for text.
void RefuseTable(const std::string& path);

// OptionError of "output" where a name ends as files of another kind do ("npz", "parquet" …), with `written`, what the
// file is to be. `own` are the endings of that kind; those that say nothing, as .txt and .out, are any file's.
void RefuseOtherKind(const std::string& output, std::initializer_list<std::string_view> own, std::string_view written);

// Of one line of a data file: no example has more values, and a hostile line cannot take much memory.
inline constexpr JsonLimits kJsonLineLimits{.values = size_t{1} << 20};

// No character but ASCII white space.
bool IsBlank(std::string_view text);

// Removes U+FEFF from the beginning of a file's first line.
void StripByteOrderMark(std::string& line);

}  // namespace lshformer
