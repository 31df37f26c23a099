// Answers of a model as the bodies that each route gives.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "serve/api_request.h"
#include "serve/served_model.h"

namespace lshformer {

// `answers` stand in the order of the request's inputs. Numbers have the shortest digits that give the same float back,
// as `predict` writes them.
std::string AnswerBody(const ApiRequest& request, const ServedModel& model, const std::vector<ModelAnswer>& answers,
                       int64_t tokens);

}  // namespace lshformer
