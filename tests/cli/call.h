// lshformer with words after its name: what it did, or the one line of its error.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "util/command.h"

namespace lshformer::cli {

inline testing::CommandResult Call(std::vector<std::string> words) {
  words.insert(words.begin(), LSHFORMER_BINARY);
  return testing::RunCommand(words);
}

// The one error line of a command that fails with `status`.
inline std::string Wrong(const std::vector<std::string>& words, int status) {
  const testing::CommandResult result = Call(words);
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_THAT(result.err, ::testing::StartsWith("lshformer: "));
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  return result.err;
}

}  // namespace lshformer::cli
