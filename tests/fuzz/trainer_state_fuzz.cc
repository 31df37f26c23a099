// Any bytes as trainer_state.json: a state that reads back as itself, or an Error of one line.
#include <cstdint>
#include <string_view>

#include "fuzz/parses.h"
#include "train/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  TrainerState state;
  const auto parse = [&] { state = ParseTrainerState(ParseJson(text, "trainer_state.json"), "trainer_state.json"); };
  if (!testing::Parses(parse)) return 0;
  testing::Check(state.global_step >= 0 && state.max_steps >= 0 && state.logged_step >= 0, "steps are counts");
  testing::Check(state.log_history.is_array() && state.run_settings.is_object(), "lists are lists");
  const Json written = ToJson(state, TrainingOptions{});
  testing::Check(ToJson(ParseTrainerState(written, "again"), TrainingOptions{}) == written,
                 "a state reads back as itself");
  return 0;
}
