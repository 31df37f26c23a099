// What loading the library adds to torch: the operators and their kernels on the CPU. Fake kernels and gradients are
// registered in Python (lshformer/_operators.py).
#include <torch/csrc/stable/library.h>

#include "attention.h"
#include "attention/spec.h"
#include "base/json.h"
#include "errors.h"
#include "specs.h"
#include "threads.h"

namespace lshformer::extension {
namespace {

// A layer's spec, and the "attention" of a config: as they are written, every key said.
std::string ParseSpec(const std::string& json) { return ToJson(*SpecOf(json)).dump(); }
std::string ParseSpecs(const std::string& json) {
  return ToJson(ParseAttentionList(ParseJson(json, kWhere), kWhere)).dump();
}

}  // namespace
}  // namespace lshformer::extension

STABLE_TORCH_LIBRARY(lshformer, library) {
  library.def(
      "attention(Tensor query, Tensor? key, Tensor value, Tensor cu_seqlens, str spec, int seed=0, float dropout=0., "
      "int layer=0, int step=0, Tensor? key_directions=None, Tensor? query_directions=None) -> (Tensor output, Tensor "
      "lse)");
  library.def(
      "attention_backward(Tensor grad_output, Tensor query, Tensor? key, Tensor value, Tensor output, Tensor lse, "
      "Tensor cu_seqlens, str spec, int seed, float dropout, int layer, int step, Tensor? key_directions, Tensor? "
      "query_directions) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)");
  library.def(
      "plan(Tensor query, Tensor? key, Tensor cu_seqlens, str spec, int layer=0, int step=0, Tensor? "
      "key_directions=None, Tensor? query_directions=None) -> Tensor");
  library.def("parse_spec(str spec) -> str");
  library.def("parse_specs(str specs) -> str");
}

STABLE_TORCH_LIBRARY_IMPL(lshformer, CPU, library) {
  using namespace lshformer::extension;
  UseTorchThreads();
  library.impl("attention", Boxed<&Attention>);
  library.impl("attention_backward", Boxed<&AttentionBackward>);
  library.impl("plan", Boxed<&Plan>);
}

// The same: they say that there are none for such tensors.
STABLE_TORCH_LIBRARY_IMPL(lshformer, CUDA, library) {
  using namespace lshformer::extension;
  library.impl("attention", Boxed<&Attention>);
  library.impl("attention_backward", Boxed<&AttentionBackward>);
  library.impl("plan", Boxed<&Plan>);
}

STABLE_TORCH_LIBRARY_IMPL(lshformer, CompositeExplicitAutograd, library) {
  using namespace lshformer::extension;
  library.impl("parse_spec", Boxed<&ParseSpec>);
  library.impl("parse_specs", Boxed<&ParseSpecs>);
}
