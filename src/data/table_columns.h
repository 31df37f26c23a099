// Which columns of a table are read: over all rows, whatever the first one has.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "data/classification.h"

namespace lshformer {

inline constexpr const char* kLabelColumn = "label";
inline constexpr const char* kLabelSetColumn = "labels";  // of JSON: several labels a row

// A number of the row: id, idx, index, pandas' column without a name ("", "Unnamed: 0") and their like, in any case.
bool IsIndexColumn(std::string_view column);

// HF run_glue's rule over `names`, the columns that can hold text; `all` has those with other values too. What `wanted`
// names must be there. Without a label column of its own a table that may have sets of labels may have those. Error
// naming `where` and the columns there are.
TableColumns ChooseColumns(const std::vector<std::string>& names, const std::vector<std::string>& all, bool need_label,
                           bool label_sets, const TableColumns& wanted, const std::string& where);

bool HasName(const std::vector<std::string>& names, std::string_view name);

// Names for an error, with quotes around those that are hard to see without: "", " label".
std::string ListOfNames(const std::vector<std::string>& names);

}  // namespace lshformer
