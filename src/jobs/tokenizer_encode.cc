#include "jobs/tokenizer_encode.h"

#include <charconv>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/not_finite.h"
#include "base/parallel.h"
#include "base/signals.h"
#include "data/file_kind.h"
#include "io/lines_ahead.h"

namespace lshformer {
namespace {

constexpr size_t kBytesAtOnce = size_t{1} << 22, kLinesAtOnce = 4096, kBufferBytes = size_t{1} << 20;

struct Line : LineAhead {
  std::string answer;
  int64_t replaced = 0;
  bool truncated = false, failed = false;
};

std::string Quoted(std::string_view text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

// Writes encodings as JSON; the tokens of the vocabulary are quoted once.
class EncodingWriter {
 public:
  explicit EncodingWriter(const Tokenizer& tokenizer) {
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) quoted_.push_back(Quoted(tokenizer.Token(id)));
  }

  // Appends to `out`, and hands it to `spill` (if any) whenever it has grown large.
  void Write(const Encoding& encoding, std::string& out, const std::function<void(std::string&)>& spill) const {
    const auto list = [&](const char* name, const auto& values, const auto& append) {
      out.append(name);
      for (size_t i = 0; i < values.size(); ++i) {
        if (i > 0) out += ", ";
        append(values[i]);
        if (spill && out.size() > kBufferBytes) spill(out);
      }
    };
    const auto number = [&](int32_t value) { Append(value, out); };
    list("{\"input_ids\": [", encoding.ids, number);
    list("], \"token_type_ids\": [", encoding.type_ids, number);
    list("], \"tokens\": [", encoding.ids, [&](int32_t id) { out += quoted_[static_cast<size_t>(id)]; });
    list("], \"offsets\": [", encoding.offsets, [&](const std::pair<int32_t, int32_t>& offset) {
      out += '[';
      Append(offset.first, out);
      out += ", ";
      Append(offset.second, out);
      out += ']';
    });
    out += "]}\n";
  }

 private:
  static void Append(int32_t value, std::string& out) {
    char digits[12];
    out.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  }

  std::vector<std::string> quoted_;
};

std::optional<std::string> TextOf(const Json& object, const char* key, std::string_view where) {
  if (!HasValue(object, key)) return std::nullopt;
  return GetString(object, key, where);
}

class Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, bool jsonl, const EncodeOptions& options)
      : tokenizer_(tokenizer), jsonl_(jsonl), options_(options), writer_(tokenizer) {}

  void Answer(Line& line, const std::function<void(std::string&)>& spill) const {
    if (!jsonl_) return AnswerText(line, spill);
    Json id;
    try {
      if (!line.error.empty()) throw Error(line.error);
      const Json object = ParseJson(line.text, line.where, kJsonLineLimits);
      if (!object.is_object()) Fail("{}: expected an object, got {}", line.where, object.type_name());
      if (object.contains("id")) id = object["id"], NullNotFinite(id);
      if (!HasValue(object, "text")) Fail("{}: \"text\" is missing", line.where);
      const std::string text = GetString(object, "text", line.where);
      const std::optional<std::string> pair = TextOf(object, "text_pair", line.where);
      line.text.clear();
      Encode(text, pair, line, spill);
    } catch (const Error& error) {
      line.failed = true;
      line.error = error.what();
      Json answer = Json::object();
      if (!id.is_null()) answer["id"] = id;
      answer["error"] = line.error;
      line.answer = answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }
  }

 private:
  void AnswerText(Line& line, const std::function<void(std::string&)>& spill) const {
    if (!line.error.empty()) throw Error(line.error);
    if (!IsValidUtf8(line.text)) line.text = CleanUtf8(line.text, &line.replaced);
    Encode(line.text, std::nullopt, line, spill);
  }

  void Encode(std::string_view text, std::optional<std::string_view> pair, Line& line,
              const std::function<void(std::string&)>& spill) const {
    Encoding encoding;
    try {
      encoding = tokenizer_.Encode(text, pair, options_);
    } catch (const Error& error) {
      Fail("{}: {}", line.where, error.Spelled(kOptionMark));
    }
    line.truncated = encoding.truncated;
    writer_.Write(encoding, line.answer, spill);
  }

  const Tokenizer& tokenizer_;
  const bool jsonl_;
  const EncodeOptions options_;
  const EncodingWriter writer_;
};

}  // namespace

EncodeStatistics EncodeLines(const Tokenizer& tokenizer, LineReader& lines, bool jsonl, const EncodeOptions& options,
                             const std::function<void(std::string_view)>& write, const std::function<void()>& flush) {
  EncodeStatistics statistics;
  const Encoder encoder(tokenizer, jsonl, options);
  const auto spill = [&](std::string& out) {
    write(out);
    out.clear();
  };
  for (bool more = true; more;) {
    ThrowIfStopped("tokenizer encode");
    std::vector<LineAhead> read;
    more = ReadLinesAhead(lines, kLinesAtOnce, kBytesAtOnce, read);
    std::vector<Line> ready;
    for (LineAhead& line : read) ready.push_back({{std::move(line)}, "", 0, false, false});
    // The JSON of a line is many times its text: a large one is written while it is made, and not beside others.
    const auto is_large = [](const Line& line) { return line.text.size() > kBufferBytes; };
    ParallelFor(static_cast<int64_t>(ready.size()), 16, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        if (!is_large(ready[i])) encoder.Answer(ready[i], nullptr);
      }
    });
    for (Line& line : ready) {
      if (is_large(line)) encoder.Answer(line, spill);
      write(line.answer);
      ++statistics.lines;
      statistics.truncated += line.truncated;
      statistics.replaced += line.replaced;
      if (line.failed && ++statistics.bad == 1) statistics.first_error = line.error;
      line = Line();
    }
    flush();
  }
  return statistics;
}

}  // namespace lshformer
