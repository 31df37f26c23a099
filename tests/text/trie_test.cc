#include "text/trie.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/philox.h"

namespace lshformer {
namespace {

// Against the obvious search, for key sets dense and sparse.
TEST(TrieTest, FindsTheLongestKey) {
  for (const int letters : {2, 26, 256}) {
    PhiloxStream random(static_cast<uint64_t>(letters));
    const auto word = [&](uint64_t longest) {
      std::string text(1 + random.Below(longest), '\0');
      for (char& c : text) c = static_cast<char>(random.Below(static_cast<uint64_t>(letters)));
      return text;
    };
    std::map<std::string, int32_t> keys;
    for (int i = 0; i < 3000; ++i) keys.emplace(word(9), i);
    const Trie trie({keys.begin(), keys.end()});
    for (int i = 0; i < 20000; ++i) {
      const std::string text =
          i % 2 == 0 ? word(14) : std::next(keys.begin(), i % static_cast<int>(keys.size()))->first + word(3);
      Trie::Match expected;
      for (size_t length = 1; length <= text.size(); ++length) {
        const auto found = keys.find(text.substr(0, length));
        if (found != keys.end()) expected = {found->second, length};
      }
      const Trie::Match match = trie.LongestPrefix(text);
      ASSERT_EQ(match.value, expected.value);
      ASSERT_EQ(match.length, expected.length);
    }
  }
}

TEST(TrieTest, WithoutKeysNothingIsFound) {
  EXPECT_EQ(Trie().LongestPrefix("x").value, -1);
  EXPECT_EQ(Trie({{"x", 0}}).LongestPrefix("").value, -1);
}

}  // namespace
}  // namespace lshformer
