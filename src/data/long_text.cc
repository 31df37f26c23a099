#include "data/long_text.h"

#include <algorithm>

#include "base/error.h"

namespace lshformer {
namespace {

// Of a sequence of one text the tokens [begin, end), between those that stand around it.
Encoding WindowOf(const Encoding& whole, size_t lead, size_t begin, size_t end, size_t after) {
  Encoding window;
  const auto put = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i)
      window.Push(whole.ids[i], whole.type_ids[i], whole.offsets[i].first, whole.offsets[i].second);
  };
  put(0, lead);
  put(begin, end);
  put(whole.ids.size() - after, whole.ids.size());
  return window;
}

std::vector<Encoding> WindowsOf(const Encoding& whole, const TextTemplate::Form& around, const TextEncoding& how) {
  const size_t after = around.after.size(), size = whole.ids.size(), most = static_cast<size_t>(how.max_seq_length);
  const size_t lead = std::max(static_cast<size_t>(how.lead), around.before.size());
  if (lead + after >= most) Fail("\"text\": its prompt leaves no room for it in {} tokens", most);
  const size_t tokens = size - lead - after, room = most - lead - after;
  const size_t windows = (tokens + room - 1) / room;
  std::vector<Encoding> out;
  for (size_t w = 0; w < windows; ++w)
    out.push_back(WindowOf(whole, lead, lead + w * tokens / windows, lead + (w + 1) * tokens / windows, after));
  return out;
}

}  // namespace

std::vector<Encoding> EncodeLong(const Tokenizer& tokenizer, std::string_view text,
                                 std::optional<std::string_view> pair, const TextEncoding& how) {
  const bool cut = how.long_text == LongText::kCut;
  EncodeOptions options;
  options.lower_case = how.lower_case;
  options.max_length = cut ? how.max_seq_length : 0;
  std::vector<Encoding> sequences{tokenizer.Encode(text, pair, options)};
  const size_t tokens = sequences[0].ids.size();
  if (cut || how.max_seq_length == 0 || tokens <= static_cast<size_t>(how.max_seq_length)) return sequences;
  if (how.long_text == LongText::kWhole)
    Fail("\"text\" has {} tokens, more than {} ({} whole)", tokens, how.max_seq_length, OptionName{"long_text"});
  if (pair)
    Fail("\"text\" and its pair have {} tokens, more than {}: {} windows is for single texts", tokens,
         how.max_seq_length, OptionName{"long_text"});
  return WindowsOf(sequences[0], tokenizer.text_template().Of(1), how);
}

std::vector<float> JoinWindows(std::span<const std::vector<float>> windows, WindowPooling pooling) {
  std::vector<float> joined = windows.front();
  for (size_t i = 0; i < joined.size(); ++i) {
    double sum = 0;
    for (const std::vector<float>& window : windows) {
      sum += window[i];
      joined[i] = std::max(joined[i], window[i]);
    }
    if (pooling == WindowPooling::kMean) joined[i] = static_cast<float>(sum / static_cast<double>(windows.size()));
  }
  return joined;
}

}  // namespace lshformer
