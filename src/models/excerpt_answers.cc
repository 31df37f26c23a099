#include "models/excerpt_answers.h"

namespace lshformer {

bool ExcerptAnswers::AddTo(AnswerSearch& search, int b, const SquadExcerpt& excerpt, const TokenPlaces& places) const {
  const auto sequence = static_cast<size_t>(b);
  if (!output_.beams.empty()) {
    const AnswerBeam& beam = output_.beams[sequence];
    if (!AllFinite(beam)) return false;
    search.AddExcerpt(beam, excerpt, places);
    return true;
  }
  const int32_t begin = batch_.tokens.cu_seqlens[sequence];
  const auto length = static_cast<size_t>(batch_.tokens.cu_seqlens[sequence + 1] - begin);
  const std::span<const float> start(starts_.data_ptr<float>() + begin, length);
  const std::span<const float> end(ends_.data_ptr<float>() + begin, length);
  if (!AllFinite(start) || !AllFinite(end)) return false;
  search.AddExcerpt(start, end, excerpt, places);
  return true;
}

}  // namespace lshformer
