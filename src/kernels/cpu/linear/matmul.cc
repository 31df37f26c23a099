#include "kernels/matmul.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/cpu/aligned_floats.h"
#include "kernels/cpu/linear/primitives.h"
#include "kernels/cpu/panels/panels.h"
#include "kernels/isa.h"
#include "kernels/work_memory.h"

namespace lshformer {
namespace {

// Rows of a block where oneDNN's rows are not independent. A multiple of the 6, 4, 8 and 16 rows that its kernels take
// at a time: rows left over go through another kernel with another order of summation.
constexpr int64_t kRowBlock = 48;
// Rows of AMX's bfloat16 kernels are not independent (measured from 1,536 terms on; linear layers have a product of
// their own there). Four times as many rows: they are so fast that reading the weights for 48 would take most of the
// time.
constexpr int64_t kAmxRowBlock = 192;
// Rows of a weight gradient that one thread makes, where oneDNN's sums depend on the number of threads.
constexpr int64_t kGradientRows = 64;
// Where rows are independent, a product is cut into pieces of these many rows: pieces of 1024, one of a multiple of
// 128, one of a multiple of 16, filled up with zero rows. A primitive holds machine code for its number of rows, up to
// a megabyte, and takes a millisecond to make; batches of text have ever new numbers of rows, and so share sixteen
// primitives. A weight gradient's sum over tokens is cut alike.
constexpr int64_t kLargePiece = 1024, kMiddlePiece = 128, kSmallPiece = 16;
// Wider rows of a plain second factor than this are read at a third to two thirds of the speed of packed ones, so that
// packing it pays from so many rows on (measured on Ice Lake; but for powers of two, of which oneDNN makes a copy). The
// bits are those of the plain factor (tests/kernels/linear/matmul_test.cc).
constexpr int64_t kWidePlain = 2048, kRowsToPack = 256;

// A product of kRowBlock rows with a packed b: what the layout of b and the way through its rows are chosen for.
Signature PackingSignature(Precision precision, int64_t columns, int64_t inner, int layout) {
  return {.precision = precision,
          .rows = kRowBlock,
          .columns = columns,
          .inner = inner,
          .a_row = inner,
          .a_column = 1,
          .b_row = 0,
          .b_column = 0,
          .c_stride = columns,
          .bias = false,
          .accumulate = false,
          .layout = layout,
          .threads = 1};
}

bool PaysToPack(const Signature& s) {
  return s.precision == Precision::kFloat32 && s.layout == kStrided && s.b_column == 1 && s.columns > kWidePlain &&
         !std::has_single_bit(static_cast<uint64_t>(s.columns)) && s.rows >= kRowsToPack;
}

// `count` elements of `bytes` bytes, the sources `stride` elements apart, into consecutive ones.
void Gather(const std::byte* from, int64_t stride, int64_t count, int64_t bytes, std::byte* to) {
  if (stride == 1) {
    std::memcpy(to, from, count * bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, from + i * stride * bytes, bytes);
}

// Operands of a product whose types the signature tells.
struct Operands {
  const std::byte* a;
  const void* b;
  const float* bias;
  std::byte* c;
  Operands FromRow(const Signature& s, int64_t row) const {
    return {a + row * s.a_row * TypesOf(s.precision).a_bytes, b, bias, c + row * s.c_stride * kResultBytes};
  }
};

// `rows` rows by the primitive of signature.rows ≥ rows: filled up with zero rows.
void ExecuteFilledUp(const Signature& signature, int64_t rows, const Operands& o) {
  if (rows == signature.rows) return Execute(*FindPrimitive(signature), o.a, o.b, o.bias, o.c);
  Signature full = signature;
  full.a_row = signature.inner, full.a_column = 1, full.c_stride = signature.columns;
  const int64_t a_bytes = TypesOf(signature.precision).a_bytes;
  const int64_t a_row_bytes = full.inner * a_bytes, c_row_bytes = full.columns * kResultBytes;
  auto* a = reinterpret_cast<std::byte*>(WorkspaceOf(WorkspaceUse::kFilledFactor, full.rows * a_row_bytes));
  auto* c = reinterpret_cast<std::byte*>(WorkspaceOf(WorkspaceUse::kFilledResult, full.rows * c_row_bytes));
  for (int64_t i = 0; i < rows; ++i) {
    const Operands row = o.FromRow(signature, i);
    Gather(row.a, signature.a_column, full.inner, a_bytes, a + i * a_row_bytes);
    if (full.accumulate) std::memcpy(c + i * c_row_bytes, row.c, c_row_bytes);
  }
  std::memset(a + rows * a_row_bytes, 0, (full.rows - rows) * a_row_bytes);
  if (full.accumulate) std::memset(c + rows * c_row_bytes, 0, (full.rows - rows) * c_row_bytes);
  Execute(*FindPrimitive(full), a, o.b, o.bias, c);
  for (int64_t i = 0; i < rows; ++i) std::memcpy(o.FromRow(signature, i).c, c + i * c_row_bytes, c_row_bytes);
}

// Rows in blocks of `block`, each on one thread: how a block is divided must not depend on the number of threads.
void ExecuteInBlocks(Signature signature, int64_t block, const Operands& operands) {
  const int64_t rows = signature.rows;
  signature.rows = block;
  signature.threads = 1;
  ParallelFor(rows, block, [&](int64_t begin, int64_t end) {
    ExecuteFilledUp(signature, end - begin, operands.FromRow(signature, begin));
  });
}

int64_t PieceOf(int64_t left) {
  if (left >= kLargePiece) return kLargePiece;
  return left >= kMiddlePiece ? left / kMiddlePiece * kMiddlePiece : left;
}
int64_t FilledUp(int64_t piece) { return (piece + kSmallPiece - 1) / kSmallPiece * kSmallPiece; }

// Rows in pieces of few sizes, each by all threads the caller has.
void ExecuteInPieces(Signature signature, const Operands& operands) {
  const int64_t rows = signature.rows;
  for (int64_t begin = 0, piece; begin < rows; begin += piece) {
    piece = PieceOf(rows - begin);
    signature.rows = FilledUp(piece);
    ExecuteFilledUp(signature, piece, operands.FromRow(signature, begin));
  }
}

// The layout that oneDNN prefers for a float32 factor of this size.
int PreferredLayout(int64_t inner, int64_t columns) {
  static std::mutex mutex;
  static std::map<std::pair<int64_t, int64_t>, int> layouts;
  const std::lock_guard lock(mutex);
  const auto [found, fresh] = layouts.try_emplace({inner, columns}, kStrided);
  if (fresh) {
    const WithThreads one(1);  // as PackedMatrix::Pack
    found->second =
        LayoutNumber(Describe(PackingSignature(Precision::kFloat32, columns, inner, kPreferred)).weights_desc());
  }
  return found->second;
}

// The plain factor b of `signature` in the layout that oneDNN prefers, in memory of this thread; the signature is then
// of that.
const void* PackSecond(const void* b, Signature& signature) {
  const int number = PreferredLayout(signature.inner, signature.columns);
  const Desc layout = LayoutOf(number);
  const Desc plain_desc = Strided(Type::f32, signature.inner, signature.columns, signature.b_row, signature.b_column);
  if (layout == plain_desc) return b;
  dnnl::memory plain(plain_desc, Engine(), const_cast<void*>(b));
  dnnl::memory packed(layout, Engine(), WorkspaceOf(WorkspaceUse::kPackedSecond, layout.get_size()));
  const WithThreads threads(signature.threads);
  dnnl::reorder(plain, packed).execute(Stream(), plain, packed);
  Stream().wait();
  signature.layout = number, signature.b_row = signature.b_column = 0;
  return packed.get_data_handle();
}

// A copy of `tokens` packed rows, and zero rows up to `filled`.
const std::byte* FillUpTokens(const std::byte* from, int64_t tokens, int64_t filled, int64_t row_bytes,
                              WorkspaceUse use) {
  auto* to = reinterpret_cast<std::byte*>(WorkspaceOf(use, filled * row_bytes));
  std::memcpy(to, from, tokens * row_bytes);
  std::memset(to + tokens * row_bytes, 0, (filled - tokens) * row_bytes);
  return to;
}

// Where oneDNN divides a sum among its threads (others than batch-reduce kernels do), each block of rows is made on
// one.
void ExecuteSums(const Signature& signature, const Operands& o) {
  const auto whole = FindPrimitive(signature);
  if (whole->row_block == 0) return Execute(*whole, o.a, o.b, o.bias, o.c);
  ParallelFor(signature.rows, kGradientRows, [&](int64_t begin, int64_t end) {
    Signature block = signature;
    block.rows = end - begin;
    block.threads = 1;
    const Operands rows = o.FromRow(signature, begin);
    Execute(*FindPrimitive(block), rows.a, rows.b, rows.bias, rows.c);
  });
}

// A weight gradient aᵀ·b, a: [tokens, rows], b: [tokens, columns], both packed: the sum over tokens in pieces of few
// sizes, each by all threads.
void ExecuteTokensInPieces(Signature signature, const Operands& o) {
  const int64_t tokens = signature.inner, bytes = TypesOf(signature.precision).a_bytes;
  const int64_t a_row = signature.rows * bytes, b_row = signature.columns * bytes;
  for (int64_t begin = 0, piece; begin < tokens; begin += piece) {
    piece = PieceOf(tokens - begin);
    signature.inner = FilledUp(piece);
    const std::byte *a = o.a + begin * a_row, *b = static_cast<const std::byte*>(o.b) + begin * b_row;
    if (signature.inner != piece) {
      a = FillUpTokens(a, piece, signature.inner, a_row, WorkspaceUse::kFilledFactor);
      b = FillUpTokens(b, piece, signature.inner, b_row, WorkspaceUse::kFilledSecond);
    }
    Signature product = signature;
    const void* second = PaysToPack(product) ? PackSecond(b, product) : b;
    ExecuteSums(product, {a, second, o.bias, o.c});
    signature.accumulate = true;
    signature.bias = false;
  }
}

// A sum of no products: oneDNN divides by their number.
template <class T>
void AddNothing(const ProductOf<T>& p) {
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t j = 0; j < p.columns; ++j) {
      float& c = p.c[i * p.c_stride + j];
      c = (p.accumulate ? c : 0.0f) + (p.bias != nullptr ? p.bias[j] : 0.0f);
    }
  }
}

// Without AVX-512 oneDNN 2.6 reaches a quarter to nine tenths of the speed of panels, nor are its rows independent.
bool InPanels() {
  static const bool in_panels = !OneDnnHas(dnnl::cpu_isa::avx512_core);
  return in_panels;
}

template <class T>
void Multiply(Precision precision, const ProductOf<T>& p) {
  if (p.rows == 0 || p.columns == 0) return;
  if (p.inner == 0) return AddNothing(p);
  if constexpr (std::is_same_v<T, float>) {
    if (InPanels()) return MultiplyByPanels(p);
  }
  Signature signature{.precision = precision,
                      .rows = p.rows,
                      .columns = p.columns,
                      .inner = p.inner,
                      .a_row = p.a.row_stride,
                      .a_column = p.a.column_stride,
                      .b_row = p.b.row_stride,
                      .b_column = p.b.column_stride,
                      .c_stride = p.c_stride,
                      .bias = p.bias != nullptr,
                      .accumulate = p.accumulate,
                      .layout = kStrided,
                      .threads = ThreadsHere()};
  Operands operands{reinterpret_cast<const std::byte*>(p.a.data), p.b.data, p.bias, reinterpret_cast<std::byte*>(p.c)};
  const bool of_tokens = p.a.row_stride == 1 && p.a.column_stride == p.rows && p.b.column_stride == 1 &&
                         p.b.row_stride == p.columns;  // both packed, token after token
  if (p.inner_is_tokens && of_tokens) return ExecuteTokensInPieces(signature, operands);
  if (p.inner_is_tokens && p.a.row_stride == 1) return ExecuteSums(signature, operands);
  if (p.inner_is_tokens) return Execute(*FindPrimitive(signature), p.a.data, p.b.data, p.bias, p.c);
  // Whether rows are independent is asked of a number of rows that many calls share.
  Signature probe = signature;
  probe.rows = FilledUp(PieceOf(p.rows));
  probe.a_row = p.inner, probe.a_column = 1, probe.c_stride = p.columns;
  const int64_t block = FindPrimitive(probe)->row_block;
  if (block != 0) return ExecuteInBlocks(signature, block, operands);
  if (PaysToPack(signature)) operands.b = PackSecond(p.b.data, signature);
  ExecuteInPieces(signature, operands);
}

}  // namespace

int64_t RowBlock(const std::string& implementation) {
  // Measured for 1 … 300 rows and 1, 2 threads (tests/kernels/linear/matmul_test.cc): only the batch-reduce kernels of
  // AVX-512 keep the order of summation of a row whatever the shape of the call. (Sums of integers have no order.)
  if (implementation.find("amx_bf16") != implementation.npos) return kAmxRowBlock;
  return implementation.starts_with("brg:avx512") ? 0 : kRowBlock;
}

std::string Float32ProductsIsa() { return InPanels() ? ActiveIsa() : "avx512"; }

bool SupportsProducts(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      break;
    case Precision::kBFloat16:
      return OneDnnHas(dnnl::cpu_isa::avx512_core_bf16);
    case Precision::kInt8:
      return OneDnnHas(dnnl::cpu_isa::avx512_core_vnni) || OneDnnHas(dnnl::cpu_isa::avx2_vnni);
  }
  return true;
}

void Multiply(const MatrixProduct& product) { Multiply(Precision::kFloat32, product); }
void MultiplyBf16(const ProductOf<BFloat16>& product) { Multiply(Precision::kBFloat16, product); }

struct PackedMatrix::Packed {
  Signature packing;  // with the layout that `b` has
  dnnl::memory b;
  AlignedFloats panels;  // in place of b
};

PackedMatrix::PackedMatrix(MatrixView b, int64_t inner, int64_t columns, std::optional<int> format_tag) {
  if (InPanels() && !format_tag) {
    AlignedFloats panels = AllocateFloats(PanelNumbers(inner, columns));
    PackPanels(b, inner, columns, panels.get());
    packed_.reset(new Packed{PackingSignature(Precision::kFloat32, columns, inner, kStrided), {}, std::move(panels)});
    return;
  }
  Pack(Precision::kFloat32, b.data, b.row_stride, b.column_stride, inner, columns, format_tag);
}
PackedMatrix::PackedMatrix(MatrixOf<BFloat16> b, int64_t inner, int64_t columns) {
  Pack(Precision::kBFloat16, b.data, b.row_stride, b.column_stride, inner, columns, {});
}
PackedMatrix::PackedMatrix(MatrixOf<int8_t> b, int64_t inner, int64_t columns) {
  Pack(Precision::kInt8, b.data, b.row_stride, b.column_stride, inner, columns, {});
}

void PackedMatrix::Pack(Precision precision, const void* b, int64_t row_stride, int64_t column_stride, int64_t inner,
                        int64_t columns, std::optional<int> format_tag) {
  const Type type = TypesOf(precision).b;
  Desc layout;
  if (format_tag) {
    layout = Desc({inner, columns}, type, static_cast<dnnl::memory::format_tag>(*format_tag));
  } else {
    const WithThreads one(1);  // the layout must not depend on the number of threads either
    layout = Describe(PackingSignature(precision, columns, inner, kPreferred)).weights_desc();
  }
  dnnl::memory packed(layout, Engine());
  const Desc plain_desc = Strided(type, inner, columns, row_stride, column_stride);
  dnnl::memory plain(plain_desc, Engine(), const_cast<void*>(b));
  dnnl::reorder(plain, packed).execute(Stream(), plain, packed);
  Stream().wait();
  packed_.reset(new Packed{PackingSignature(precision, columns, inner, LayoutNumber(layout)), std::move(packed), {}});
}

PackedMatrix::~PackedMatrix() = default;

void PackedMatrix::Multiply(int64_t rows, const float* a, int64_t a_stride, const float* bias, float* c,
                            int64_t c_stride) const {
  if (!packed_->panels) return Run(rows, a, a_stride, bias, c, c_stride);
  MultiplyPanels({.rows = rows,
                  .columns = packed_->packing.columns,
                  .inner = packed_->packing.inner,
                  .a = {a, a_stride, 1},
                  .b = {},
                  .bias = bias,
                  .c = c,
                  .c_stride = c_stride},
                 packed_->panels.get());
}
void PackedMatrix::Multiply(int64_t rows, const BFloat16* a, int64_t a_stride, const float* bias, float* c,
                            int64_t c_stride) const {
  Run(rows, a, a_stride, bias, c, c_stride);
}
void PackedMatrix::Multiply(int64_t rows, const uint8_t* a, int64_t a_stride, int32_t* c, int64_t c_stride) const {
  Run(rows, a, a_stride, nullptr, c, c_stride);
}

void PackedMatrix::Run(int64_t rows, const void* a, int64_t a_stride, const float* bias, void* c,
                       int64_t c_stride) const {
  const Signature& packing = packed_->packing;
  if (rows == 0 || packing.columns == 0) return;
  Signature signature = packing;
  signature.rows = rows, signature.a_row = a_stride, signature.c_stride = c_stride;
  signature.bias = bias != nullptr, signature.threads = ThreadsHere();
  const Operands operands{static_cast<const std::byte*>(a), packed_->b.get_data_handle(), bias,
                          static_cast<std::byte*>(c)};
  // All calls of a packed matrix use one implementation, however many rows they have.
  const int64_t block = packing.precision == Precision::kInt8 ? 0 : FindPrimitive(packing)->row_block;
  if (block != 0) return ExecuteInBlocks(signature, block, operands);
  ExecuteInPieces(signature, operands);
}

}  // namespace lshformer
