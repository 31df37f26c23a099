// Named numbers of a run or an evaluation, in the order in which files of results have them:
//
//   const Figures figures = RunEvaluate(job);
//   std::printf("%.3f\n", figures["eval_accuracy"]);
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lshformer {

class Figures {
 public:
  Figures() = default;
  // An object, mostly of numbers, with null where a figure is undefined; null is an object of none. What else stands
  // beside them, as other programs write it into a log, is kept.
  Figures(const Json& values);  // NOLINT: what holds figures as JSON is meant to become them

  bool empty() const { return values_.empty(); }
  bool contains(std::string_view name) const { return values_.contains(name); }
  std::vector<std::string> names() const;
  // NaN of one that is undefined. Error where there is none of this name, with the nearest, or no number.
  double operator[](std::string_view name) const;

 private:
  friend void to_json(Json& json, const Figures& figures);
  Json values_ = Json::object();
};

// As it was made: integers stay integers. null of none.
void to_json(Json& json, const Figures& figures);  // NOLINT: nlohmann's name

// A list of such objects.
std::vector<Figures> FiguresOfEach(const Json& list);

}  // namespace lshformer
