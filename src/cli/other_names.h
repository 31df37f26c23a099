// Names of flags and commands in other programs of this field, for those who type them here.
#pragma once
#include <string>
#include <vector>

namespace lshformer::cli {

// The flag of `known` ("--learning_rate", …) that another program calls `flag` ("--lr"); dashes inside a name are as
// good as underscores. "" where there is none.
std::string FlagCalled(const std::string& flag, const std::vector<std::string>& known);
// Whether the flag is one of those for a model's folder.
bool MeansModelFolder(const std::string& flag);
// The one of `names`, values of a flag (tasks), that is called `value` elsewhere ("sentiment-analysis"), or written
// with other dashes or letters; "" where there is none.
std::string ValueCalled(const std::string& value, const std::vector<std::string>& names);
// The command line, in quotes and beginning with one of `commands`, that does what `word` ("finetune") does elsewhere;
// "" where there is none.
std::string CommandCalled(const std::string& word, const std::vector<std::string>& commands);

}  // namespace lshformer::cli
