#include "ops/matmul.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/parallel.h"
#include "ops/memory.h"

namespace lshformer {
namespace {

using Desc = dnnl::memory::desc;
constexpr auto kFloat = dnnl::memory::data_type::f32;

// Rows of a block where oneDNN's rows are not independent. A multiple of the 6 (AVX2), 4, 8 and 16 rows that its
// kernels take at a time: rows left over go through another kernel with another order of summation.
constexpr int64_t kRowBlock = 48;
// Where rows are independent, a call of a packed matrix is cut into pieces of these many rows: pieces of 1024, one of a
// multiple of 128, one of a multiple of 16, filled up with zero rows. A primitive holds machine code for its number of
// rows, up to a megabyte, and takes a millisecond to make; batches of text have ever new numbers of rows, and so share
// sixteen primitives.
constexpr int64_t kLargePiece = 1024, kMiddlePiece = 128, kSmallPiece = 16;
// Primitives kept, by us and by oneDNN. A step of training uses about 30.
constexpr size_t kPrimitives = 256;

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& Stream() {
  thread_local dnnl::stream stream(Engine());
  return stream;
}

// Inside, oneDNN runs on the calling thread alone: its partition of a block must not depend on the thread count.
class OneThread {
 public:
#ifdef _OPENMP
  OneThread() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(threads_); }

 private:
  int threads_;
#endif
};

struct Signature {
  int64_t rows, columns, inner, a_row, a_column, b_row, b_column, c_stride;
  bool bias, accumulate;
  bool packed;  // b in the layout the implementation likes; strides of b are 0
  int threads;
  auto operator<=>(const Signature&) const = default;
};

struct Primitive {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul matmul;
  int64_t row_block;
};

Desc Strided(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  return Desc({rows, columns}, kFloat, dnnl::memory::dims{row_stride, column_stride});
}

// The layout of a packed b follows from its shape alone: what the implementation likes for kRowBlock rows.
Signature PackingSignature(int64_t columns, int64_t inner) {
  return {.rows = kRowBlock,
          .columns = columns,
          .inner = inner,
          .a_row = inner,
          .a_column = 1,
          .b_row = 0,
          .b_column = 0,
          .c_stride = columns,
          .bias = false,
          .accumulate = false,
          .packed = true,
          .threads = 1};
}

dnnl::matmul::primitive_desc Describe(const Signature& s) {
  const Signature packing = PackingSignature(s.columns, s.inner);
  const Desc a = Strided(s.rows, s.inner, s.a_row, s.a_column), c = Strided(s.rows, s.columns, s.c_stride, 1);
  const Desc b = !s.packed      ? Strided(s.inner, s.columns, s.b_row, s.b_column)
                 : s == packing ? Desc({s.inner, s.columns}, kFloat, dnnl::memory::format_tag::any)
                                : Describe(packing).weights_desc();
  const Desc bias = s.bias ? Desc({1, s.columns}, kFloat, dnnl::memory::format_tag::ab) : Desc();
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
  const auto description = Describe(signature);
  const auto primitive = std::make_shared<const Primitive>(
      Primitive{description, dnnl::matmul(description), RowBlock(description.impl_info_str())});
  primitives.emplace(signature, primitive);
  return primitive;
}

void Execute(const Primitive& primitive, const float* a, const void* b, const float* bias, float* c) {
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
  primitive.matmul.execute(Stream(), arguments);
  Stream().wait();
}

// `rows` rows by the primitive of signature.rows ≥ rows: filled up with zero rows.
void ExecuteFilledUp(const Signature& signature, int64_t rows, const float* a, const void* b, const float* bias,
                     float* c) {
  if (rows == signature.rows) return Execute(*FindPrimitive(signature), a, b, bias, c);
  Signature full = signature;
  full.a_row = signature.inner, full.a_column = 1, full.c_stride = signature.columns;
  std::vector<float> a_rows(full.rows * full.inner), c_rows(full.rows * full.columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < full.inner; ++k)
      a_rows[i * full.inner + k] = a[i * signature.a_row + k * signature.a_column];
    if (full.accumulate) std::copy_n(c + i * signature.c_stride, full.columns, c_rows.data() + i * full.columns);
  }
  Execute(*FindPrimitive(full), a_rows.data(), b, bias, c_rows.data());
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(c_rows.data() + i * full.columns, full.columns, c + i * signature.c_stride);
}

// Rows in blocks of kRowBlock, each on one thread.
void ExecuteInBlocks(Signature signature, const float* a, const void* b, const float* bias, float* c) {
  const int64_t rows = signature.rows;
  signature.rows = kRowBlock;
  signature.threads = 1;
  ParallelFor(rows, kRowBlock, [&](int64_t begin, int64_t end) {
    const OneThread one_thread;
    ExecuteFilledUp(signature, end - begin, a + begin * signature.a_row, b, bias, c + begin * signature.c_stride);
  });
}

// Rows in pieces of few sizes, each by all threads.
void ExecuteInPieces(Signature signature, const float* a, const void* b, const float* bias, float* c) {
  const int64_t rows = signature.rows;
  for (int64_t begin = 0; begin < rows;) {
    const int64_t left = rows - begin;
    const int64_t piece = left >= kLargePiece    ? kLargePiece
                          : left >= kMiddlePiece ? left / kMiddlePiece * kMiddlePiece
                                                 : left;
    signature.rows = (piece + kSmallPiece - 1) / kSmallPiece * kSmallPiece;
    ExecuteFilledUp(signature, piece, a + begin * signature.a_row, b, bias, c + begin * signature.c_stride);
    begin += piece;
  }
}

}  // namespace

int64_t RowBlock(const std::string& implementation) {
  // Measured for 1 … 300 rows and 1, 2 threads (tests/ops/matmul_test.cc): only the batch-reduce kernels of AVX-512 and
  // later keep the order of summation of a row whatever the shape of the call.
  return implementation.starts_with("brg:avx512") ? 0 : kRowBlock;
}

void Multiply(const MatrixProduct& p) {
  if (p.rows == 0 || p.columns == 0) return;
  const Signature signature{.rows = p.rows,
                            .columns = p.columns,
                            .inner = p.inner,
                            .a_row = p.a.row_stride,
                            .a_column = p.a.column_stride,
                            .b_row = p.b.row_stride,
                            .b_column = p.b.column_stride,
                            .c_stride = p.c_stride,
                            .bias = p.bias != nullptr,
                            .accumulate = p.accumulate,
                            .packed = false,
                            .threads = Threads()};
  const auto primitive = FindPrimitive(signature);
  if (p.inner_is_tokens || primitive->row_block == 0) {
    Execute(*primitive, p.a.data, p.b.data, p.bias, p.c);
  } else {
    ExecuteInBlocks(signature, p.a.data, p.b.data, p.bias, p.c);
  }
}

struct PackedMatrix::Packed {
  int64_t inner, columns;
  dnnl::memory b;
};

PackedMatrix::PackedMatrix(MatrixView b, int64_t inner, int64_t columns) {
  const auto primitive = FindPrimitive(PackingSignature(columns, inner));
  dnnl::memory packed(primitive->description.weights_desc(), Engine());
  dnnl::memory plain(Strided(inner, columns, b.row_stride, b.column_stride), Engine(), const_cast<float*>(b.data));
  dnnl::reorder(plain, packed).execute(Stream(), plain, packed);
  Stream().wait();
  packed_.reset(new Packed{inner, columns, std::move(packed)});
}

PackedMatrix::~PackedMatrix() = default;

void PackedMatrix::Multiply(int64_t rows, const float* a, int64_t a_stride, const float* bias, float* c,
                            int64_t c_stride) const {
  if (rows == 0 || packed_->columns == 0) return;
  Signature signature = PackingSignature(packed_->columns, packed_->inner);
  signature.rows = rows, signature.a_row = a_stride, signature.c_stride = c_stride;
  signature.bias = bias != nullptr, signature.threads = Threads();
  const void* b = packed_->b.get_data_handle();
  // All calls of a packed matrix use one implementation, however many rows they have.
  const auto primitive = FindPrimitive(PackingSignature(packed_->columns, packed_->inner));
  if (primitive->row_block != 0) return ExecuteInBlocks(signature, a, b, bias, c);
  ExecuteInPieces(signature, a, b, bias, c);
}

}  // namespace lshformer
