#include "kernels/cpu/linear/primitives.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/work_memory.h"

namespace lshformer {
namespace {

// Primitives kept, by us and by oneDNN. A step of training uses about 30.
constexpr size_t kPrimitives = 256;

struct Layouts {
  std::mutex mutex;
  std::vector<Desc> all;
};
Layouts& KnownLayouts() {
  static Layouts layouts;
  return layouts;
}

}  // namespace

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& Stream() {
  thread_local dnnl::stream stream(Engine());
  return stream;
}

bool OneDnnHas(dnnl::cpu_isa isa) {  // a set of bits; that of another architecture is 0
  const auto bits = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

int LayoutNumber(const Desc& layout) {
  Layouts& known = KnownLayouts();
  const std::lock_guard lock(known.mutex);
  const auto place = std::find(known.all.begin(), known.all.end(), layout) - known.all.begin();
  if (place == std::ssize(known.all)) known.all.push_back(layout);
  return static_cast<int>(place);
}

Desc LayoutOf(int number) {
  Layouts& known = KnownLayouts();
  const std::lock_guard lock(known.mutex);
  return known.all[static_cast<size_t>(number)];
}

Desc Strided(Type type, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  return Desc({rows, columns}, type, dnnl::memory::dims{row_stride, column_stride});
}

dnnl::matmul::primitive_desc Describe(const Signature& s) {
  const Types types = TypesOf(s.precision);
  const Desc a = Strided(types.a, s.rows, s.inner, s.a_row, s.a_column);
  const Desc c = Strided(types.c, s.rows, s.columns, s.c_stride, 1);
  const Desc b = s.layout == kStrided     ? Strided(types.b, s.inner, s.columns, s.b_row, s.b_column)
                 : s.layout == kPreferred ? Desc({s.inner, s.columns}, types.b, dnnl::memory::format_tag::any)
                                          : LayoutOf(s.layout);
  const Desc bias = s.bias ? Desc({1, s.columns}, Type::f32, dnnl::memory::format_tag::ab) : Desc();
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(Engine(), a, b, bias, c, attributes);
#else
  return dnnl::matmul::primitive_desc(s.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c),
                                      attributes, Engine());
#endif
}

std::shared_ptr<const Primitive> FindPrimitive(const Signature& signature) {
  static std::mutex mutex;
  static std::map<Signature, std::shared_ptr<const Primitive>> primitives;
  std::lock_guard lock(mutex);
  if (const auto found = primitives.find(signature); found != primitives.end()) return found->second;
  if (primitives.empty()) dnnl::set_primitive_cache_capacity(kPrimitives);
  if (primitives.size() >= kPrimitives) primitives.clear();  // oneDNN's own cache makes the next creation cheap
  const WithThreads threads(signature.threads);
  const auto description = Describe(signature);
  const auto primitive = std::make_shared<const Primitive>(
      Primitive{description, dnnl::matmul(description), RowBlock(description.impl_info_str()), signature.threads});
  primitives.emplace(signature, primitive);
  return primitive;
}

void Execute(const Primitive& primitive, const void* a, const void* b, const float* bias, void* c) {
  const auto& description = primitive.description;
  const auto memory = [](const Desc& desc, const void* data) {
    return dnnl::memory(desc, Engine(), const_cast<void*>(data));  // oneDNN has no const view
  };
  const Desc scratch = description.scratchpad_desc();
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, memory(description.src_desc(), a)},
      {DNNL_ARG_WEIGHTS, memory(description.weights_desc(), b)},
      {DNNL_ARG_DST, memory(description.dst_desc(), c)},
      {DNNL_ARG_SCRATCHPAD, memory(scratch, WorkspaceOf(WorkspaceUse::kPrimitive, scratch.get_size()))}};
  if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, memory(description.bias_desc(), bias));
  const WithThreads threads(primitive.threads);
  primitive.matmul.execute(Stream(), arguments);
  Stream().wait();
}

}  // namespace lshformer
