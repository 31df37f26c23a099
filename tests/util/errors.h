// What an action throws, for EXPECT_THAT(ErrorOf([&] { Parse("x"); }), HasSubstr("...")).
#pragma once
#include <gmock/gmock.h>

#include <exception>
#include <string>

#include "base/error.h"

namespace lshformer::testing {

// The message of the Error that `action` throws; says so when nothing or something else is thrown. A message that
// breaks the contract of one line fails the test at once.
template <class Action>
std::string ErrorOf(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find_first_of("\r\n"), message.npos) << "an error is one line: " << message;
    EXPECT_LE(message.size(), 300u) << "an error is at most 300 bytes: " << message;
    return message;
  } catch (const std::exception& error) {
    return std::string("(not an Error) ") + error.what();
  }
  return "(nothing thrown)";
}

}  // namespace lshformer::testing
