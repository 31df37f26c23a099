#include "base/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "util/errors.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Figures, KeepOrderAndKind) {
  const Json written =
      ParseJson(R"({"steps": 7, "eval_loss": 0.5, "eval_pearson": null, "eval_accuracy": 1.0})", "test");
  const Figures figures = written;
  EXPECT_THAT(figures.names(), ElementsAre("steps", "eval_loss", "eval_pearson", "eval_accuracy"));
  EXPECT_EQ(Json(figures).dump(), written.dump()) << "7 and 1.0, as they were";
  EXPECT_EQ(figures["steps"], 7);
  EXPECT_EQ(figures["eval_loss"], 0.5);
  EXPECT_TRUE(std::isnan(figures["eval_pearson"])) << "undefined";
  EXPECT_TRUE(figures.contains("eval_pearson"));
  EXPECT_FALSE(figures.contains("eval_f1"));
}

TEST(Figures, OfNoneAreNull) {
  EXPECT_TRUE(Figures().empty());
  EXPECT_TRUE(Json(Figures()).is_null());
  EXPECT_TRUE(Figures(Json()).empty());
  EXPECT_THAT(Figures(Json::object()).names(), IsEmpty());
}

TEST(Figures, WhatIsNoNumberIsNamed) {
  const Json of_another = {{"eval_loss", 1}, {"name", "x"}};
  EXPECT_EQ(Json(Figures(of_another)), of_another) << "what other programs write is kept";
  EXPECT_EQ(ErrorOf([&] { Figures{of_another}["name"]; }), "name: expected a number, got \"x\"");
  EXPECT_EQ(ErrorOf([] { Figures(Json::array({1})); }), "expected an object of figures, got a list of 1 value");
  EXPECT_EQ(ErrorOf([] { FiguresOfEach(Json::object()); }), "expected a list of figures, got an object");
  EXPECT_EQ(ErrorOf([] {
              Figures(Json{{"eval_loss", 1}})["eval_los"];
            }),
            "there is no figure \"eval_los\" (did you mean \"eval_loss\"?)");
}

TEST(Figures, OfAListAreInItsOrder) {
  const std::vector<Figures> log =
      FiguresOfEach(Json::parse(R"([{"step": 1, "loss": 2.5}, {"step": 2, "eval_loss": 2}])"));
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[0]["loss"], 2.5);
  EXPECT_EQ(log[1]["step"], 2);
}

}  // namespace
}  // namespace lshformer
