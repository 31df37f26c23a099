#include "eval/shared_outputs.h"

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace lshformer {
namespace {

class Writer {
 public:
  void Bytes(const void* data, size_t bytes) { text_.append(static_cast<const char*>(data), bytes); }
  template <class Value>
  void Add(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    Bytes(&value, sizeof(value));
  }
  // float32, or undefined.
  void Add(const torch::Tensor& tensor) {
    Add<int64_t>(tensor.defined() ? tensor.dim() : -1);
    if (!tensor.defined()) return;
    const torch::Tensor values = tensor.detach().contiguous();
    if (values.scalar_type() != torch::kFloat32) Fail("an output of {}", c10::str(values.scalar_type()));
    for (const int64_t size : values.sizes()) Add(size);
    Bytes(values.data_ptr(), values.nbytes());
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  void Bytes(void* data, size_t bytes) {
    if (bytes > text_.size()) Fail("an output of another process is cut off");
    std::memcpy(data, text_.data(), bytes);
    text_.remove_prefix(bytes);
  }
  template <class Value>
  Value Take() {
    Value value;
    Bytes(&value, sizeof(value));
    return value;
  }
  torch::Tensor TakeTensor() {
    const auto dimensions = Take<int64_t>();
    if (dimensions < 0) return {};
    std::vector<int64_t> sizes;
    for (int64_t i = 0; i < dimensions; ++i) sizes.push_back(Take<int64_t>());
    torch::Tensor tensor = torch::empty(sizes, torch::kFloat32);
    Bytes(tensor.data_ptr(), tensor.nbytes());
    return tensor;
  }

 private:
  std::string_view text_;
};

// The tensors in a fixed order; Output is constant or not.
template <class Output>
auto TensorsOf(Output& output) {
  return std::array{&output.loss,       &output.logits,           &output.sentence_pair_logits, &output.start_logits,
                    &output.end_logits, &output.no_answer_logits, &output.last_hidden_state,    &output.pooler_output};
}

}  // namespace

std::string Packed(const CountedOutput& forward) {
  Writer writer;
  writer.Add(forward.counts);
  for (const torch::Tensor* tensor : TensorsOf(forward.output)) writer.Add(*tensor);
  writer.Add<uint64_t>(forward.output.terms.size());
  for (const torch::Tensor& term : forward.output.terms) writer.Add(term);
  writer.Add<uint64_t>(forward.output.beams.size());
  for (const AnswerBeam& beam : forward.output.beams) {
    writer.Add(beam.no_answer);
    writer.Add<uint64_t>(beam.spans.size());
    writer.Bytes(beam.spans.data(), beam.spans.size() * sizeof(AnswerBeam::Span));
  }
  return writer.Take();
}

CountedOutput Unpacked(std::string_view text) {
  Reader reader(text);
  CountedOutput forward;
  forward.counts = reader.Take<AttentionCounts>();
  for (torch::Tensor* tensor : TensorsOf(forward.output)) *tensor = reader.TakeTensor();
  forward.output.terms.resize(reader.Take<uint64_t>());
  for (torch::Tensor& term : forward.output.terms) term = reader.TakeTensor();
  forward.output.beams.resize(reader.Take<uint64_t>());
  for (AnswerBeam& beam : forward.output.beams) {
    beam.no_answer = reader.Take<float>();
    beam.spans.resize(reader.Take<uint64_t>());
    reader.Bytes(beam.spans.data(), beam.spans.size() * sizeof(AnswerBeam::Span));
  }
  return forward;
}

AttentionCounts Summed(Communicator& processes, const AttentionCounts& own) {
  AttentionCounts sum;
  Writer writer;
  writer.Add(own);
  for (const std::string& text : processes.AllGather(writer.Take())) sum += Reader(text).Take<AttentionCounts>();
  return sum;
}

std::vector<CountedOutput> Shared(Communicator& processes, const CountedOutput* own) {
  std::vector<CountedOutput> all;
  for (const std::string& text : processes.AllGather(own == nullptr ? "" : Packed(*own)))
    if (!text.empty()) all.push_back(Unpacked(text));
  return all;
}

}  // namespace lshformer
