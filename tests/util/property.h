// Properties that must hold of random input, the same input in every run: EXPECT_TRUE(Holds("…", 50, [] { … RC_ASSERT
// … })). The input is drawn by the arguments of the property and by *rc::gen::…; a failure is shrunk and printed.
#pragma once
#include <rapidcheck.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

namespace lshformer::testing {

// Whether `property` holds of that many cases, which grow from trivial ones to large ones. RC_PARAMS="seed=7" in the
// environment draws others.
template <class Property>
bool Holds(const std::string& what, int cases, Property&& property) {
  setenv("RC_PARAMS", "seed=20260101", /*overwrite=*/0);  // by itself rapidcheck draws a new seed in each run
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = cases;
  std::cout << what << ": seed " << params.seed << ", " << cases << " cases\n";
  rc::detail::TestMetadata metadata;
  metadata.id = metadata.description = what;
  const auto result = rc::detail::checkTestable(std::forward<Property>(property), metadata, params);
  rc::detail::printResultMessage(result, std::cout);
  std::cout << "\n";
  return result.template is<rc::detail::SuccessResult>();
}

}  // namespace lshformer::testing
