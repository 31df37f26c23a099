// Any bytes as questions with options: right options that there are, sequences that fit, or an Error of one line.
#include "data/multiple_choice.h"
#include "data/small_tokenizer.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  static const std::shared_ptr<const Tokenizer> tokenizer = testing::SmallTokenizer();
  const testing::MemoryFile file(data, size, "a.txt");
  for (const bool labelled : {true, false}) {
    testing::Parses([&] {
      const ChoiceData read = ReadChoices(file.path(), labelled, /*limit=*/100);
      Check(!read.questions.empty() && read.questions.size() <= 100, "there are questions");
      for (const ChoiceQuestion& question : read.questions) {
        Check(question.options.size() >= kFewestOptions && question.options.size() <= kMostOptions, "and options");
        Check(question.label >= 0 && question.label < static_cast<int32_t>(question.options.size()), "one is right");
        Check(question.context >= 0 && question.context < static_cast<int32_t>(read.contexts.size()), "of a text");
      }
      int64_t truncated = 0;
      const SequenceSet set = EncodeChoices(read, labelled, *tokenizer, 8, &truncated);
      Check(set.size() == static_cast<int64_t>(read.questions.size()), "a question is an example");
      Check(set.max_length() <= 8, "sequences fit");
    });
  }
  return 0;
}
