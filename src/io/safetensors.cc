#include "io/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "base/content_kind.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

namespace lshformer {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian and is mapped as it is");

struct DTypeInfo {
  const char* name;
  size_t bytes;
};
constexpr std::array<DTypeInfo, 13> kDTypes{{{"BOOL", 1},
                                             {"U8", 1},
                                             {"I8", 1},
                                             {"I16", 2},
                                             {"U16", 2},
                                             {"F16", 2},
                                             {"BF16", 2},
                                             {"I32", 4},
                                             {"U32", 4},
                                             {"F32", 4},
                                             {"I64", 8},
                                             {"U64", 8},
                                             {"F64", 8}}};

constexpr uint64_t kMostHeaderBytes = 100'000'000;     // the reference implementation's limit
constexpr size_t kMostHeaderValues = size_t{1} << 22;  // some 500,000 tensors; bounds the memory a hostile header takes
constexpr size_t kMostDimensions = 32;                 // what NumPy takes
constexpr const char* kMetadataKey = "__metadata__";
constexpr size_t kFrontBytes = sizeof(uint64_t);          // the header's size
constexpr uint64_t kMostStreamBytes = uint64_t{1} << 32;  // of data read into memory

struct ByteRange {
  uint64_t begin, end;
  const std::string* name;
};

// What a header says, checked against the size of the data behind it.
struct Header {
  struct Tensor {
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;
    uint64_t begin = 0, end = 0;  // of its bytes in the data
  };
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

DType ParseDType(const std::string& name, std::string_view where) {
  for (size_t i = 0; i < kDTypes.size(); ++i)
    if (name == kDTypes[i].name) return static_cast<DType>(i);
  Fail("{} has the unknown dtype \"{}\"", where, Shown(name));
}

std::vector<int64_t> ParseShape(const Json& entry, std::string_view where) {
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array()) Fail("{}: \"shape\": expected a list of sizes", where);
  if (shape->size() > kMostDimensions)
    Fail("{} has {} dimensions, the limit is {}", where, shape->size(), kMostDimensions);
  std::vector<int64_t> sizes;
  for (const Json& size : *shape) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      Fail("{}: \"shape\": expected sizes of 0 or more, got {}", where, ShownValue(size));
    sizes.push_back(size.get<int64_t>());
  }
  return sizes;
}

// Bytes of a tensor; Error where they do not fit 63 bits.
uint64_t BytesOf(DType dtype, std::span<const int64_t> shape, std::string_view where) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  uint64_t bytes = ItemSize(dtype);
  for (const int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) || bytes > INT64_MAX)
      Fail("{} has the impossible shape {}", where, ShapeText(shape));
  return bytes;
}

ByteRange ParseOffsets(const Json& entry, const std::string& name, uint64_t data_bytes, std::string_view where) {
  const auto offsets = entry.find("data_offsets");
  const bool good = offsets != entry.end() && offsets->is_array() && offsets->size() == 2 &&
                    (*offsets)[0].is_number_unsigned() && (*offsets)[1].is_number_unsigned();
  if (!good) Fail("{}: \"data_offsets\": expected [begin, end]", where);
  const ByteRange range{(*offsets)[0].get<uint64_t>(), (*offsets)[1].get<uint64_t>(), &name};
  if (range.begin > range.end) Fail("{}: \"data_offsets\" [{}, {}] run backwards", where, range.begin, range.end);
  if (range.end > data_bytes)
    Fail("{} ends at byte {} of the data, which has {} (truncated file?)", where, range.end, data_bytes);
  return range;
}

// Together the tensors must cover the data: once, and all of it.
void CheckCoverage(std::vector<ByteRange> ranges, uint64_t data_bytes, std::string_view where) {
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t covered = 0;
  const std::string* before = nullptr;
  for (const ByteRange& range : ranges) {
    if (range.begin < covered)
      Fail("{}: tensor \"{}\" overlaps \"{}\"", where, Shown(*range.name, 100), Shown(*before, 80));
    if (range.begin > covered)
      Fail("{}: bytes {} to {} of the data, before tensor \"{}\", belong to no tensor", where, covered, range.begin,
           Shown(*range.name, 100));
    covered = range.end;
    before = range.name;
  }
  if (covered != data_bytes)
    Fail("{}: the data has {} bytes, the tensors of the header take {}", where, data_bytes, covered);
}

std::map<std::string, std::string> ParseMetadata(const Json& value, std::string_view where) {
  if (!value.is_object())
    Fail("{}: \"{}\": expected an object of strings, got {}", where, kMetadataKey, ShownValue(value));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      Fail("{}: \"{}\": \"{}\": expected a string, got {}", where, kMetadataKey, Shown(key), ShownValue(text));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Of the eight bytes at the front of a file.
uint64_t HeaderBytes(const void* front, std::string_view where) {
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, front, kFrontBytes);
  if (header_bytes > kMostHeaderBytes)
    Fail("{}: the header has {} bytes, the limit is {} (not a safetensors file?)", where, header_bytes,
         kMostHeaderBytes);
  return header_bytes;
}

Json HeaderJson(std::string_view text, std::string_view where) {
  if (!text.starts_with('{')) Fail("{}: the header does not begin with '{{' (not a safetensors file?)", where);
  constexpr int kDepth = 3;  // header, tensor, shape
  return ParseJson(text, fmt::format("{}: header", where),
                   {.depth = kDepth, .bytes = kMostHeaderBytes, .values = kMostHeaderValues});
}

Header ParseHeader(const Json& json, uint64_t data_bytes, std::string_view where) {
  Header header;
  std::vector<ByteRange> ranges;
  for (const auto& [name, entry] : json.items()) {
    if (name == kMetadataKey) {
      header.metadata = ParseMetadata(entry, where);
      continue;
    }
    const std::string tensor = fmt::format("{}: tensor \"{}\"", where, Shown(name, 100));
    if (!entry.is_object()) Fail("{}: expected an object, got {}", tensor, ShownValue(entry));
    const DType dtype = ParseDType(GetString(entry, "dtype", tensor), tensor);
    std::vector<int64_t> shape = ParseShape(entry, tensor);
    const uint64_t bytes = BytesOf(dtype, shape, tensor);
    const auto place = header.tensors.try_emplace(name).first;
    const ByteRange range = ParseOffsets(entry, place->first, data_bytes, tensor);
    if (range.end - range.begin != bytes)
      Fail("{} of {} {} takes {} bytes, its \"data_offsets\" {}", tensor, Name(dtype), ShapeText(shape), bytes,
           range.end - range.begin);
    place->second = {dtype, std::move(shape), range.begin, range.end};
    ranges.push_back(range);
  }
  CheckCoverage(std::move(ranges), data_bytes, where);
  return header;
}

// Where the last tensor of a header ends. What is malformed does not count: ParseHeader refuses it.
uint64_t DataBytes(const Json& header) {
  uint64_t data_bytes = 0;
  for (const Json& entry : header) {
    if (!entry.is_object() || !HasValue(entry, "data_offsets") || !entry["data_offsets"].is_array()) continue;
    for (const Json& offset : entry["data_offsets"])
      if (offset.is_number_unsigned()) data_bytes = std::max(data_bytes, offset.get<uint64_t>());
  }
  return data_bytes;
}

// Adds to `contents` until it has `bytes`; false where the input ends before.
bool ReadUpTo(int file, uint64_t bytes, const std::string& path, std::string& contents) {
  constexpr uint64_t kChunkBytes = uint64_t{1} << 20;
  while (contents.size() < bytes) {
    const size_t old = contents.size();
    contents.resize(static_cast<size_t>(std::min(bytes, old + kChunkBytes)));
    const size_t got = ReadSome(file, contents.data() + old, contents.size() - old, path);
    contents.resize(old + got);
    if (got == 0) return false;
  }
  return true;
}

// A whole file from a pipe or device. The input may have no end: each part is judged before the next is read.
std::string ReadStream(const std::string& path) {
  const std::string where = Shown(path, 120);
  const int file = OpenInput(path);
  const auto closed = std::unique_ptr<const int, void (*)(const int*)>(&file, [](const int* f) { CloseInput(*f); });
  std::string contents;
  if (!ReadUpTo(file, kFrontBytes, path, contents)) return contents;
  const uint64_t header_end = kFrontBytes + HeaderBytes(contents.data(), where);
  if (!ReadUpTo(file, header_end, path, contents)) return contents;
  const Json json = HeaderJson(std::string_view(contents).substr(kFrontBytes), where);
  const uint64_t data_bytes = DataBytes(json);
  ParseHeader(json, data_bytes, where);
  if (data_bytes > kMostStreamBytes)
    Fail("{}: the data has {} bytes, the limit of what is no plain file is {}", where, data_bytes, kMostStreamBytes);
  if (ReadUpTo(file, header_end + data_bytes + 1, path, contents))
    Fail("{}: the data goes on after the {} bytes that the tensors of the header take", where, data_bytes);
  return contents;
}

}  // namespace

const char* Name(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }
size_t ItemSize(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].bytes; }

int64_t TensorView::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::string ShapeText(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void ParseSafetensors(std::span<const std::byte> file, std::string_view where,
                      std::map<std::string, TensorView>& tensors, std::map<std::string, std::string>& metadata) {
  // In a safetensors file '{' stands here, in none of those that others are taken for.
  if (file.size() <= kFrontBytes || file[kFrontBytes] != std::byte{'{'})
    RefuseForeignContent({reinterpret_cast<const char*>(file.data()), std::min(file.size(), kContentFront)}, where);
  if (file.size() < kFrontBytes)
    Fail("{}: has {} bytes, expected a safetensors file of at least {}", where, file.size(), kFrontBytes);
  const uint64_t header_bytes = HeaderBytes(file.data(), where);
  const std::span<const std::byte> rest = file.subspan(kFrontBytes);
  if (header_bytes > rest.size())
    Fail("{}: the header has {} bytes, the file only {} more (truncated file?)", where, header_bytes, rest.size());
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), header_bytes);
  const std::span<const std::byte> data = rest.subspan(header_bytes);
  Header header = ParseHeader(HeaderJson(text, where), data.size(), where);
  metadata = std::move(header.metadata);
  tensors.clear();
  for (auto& [name, tensor] : header.tensors)
    tensors[name] = {tensor.dtype, std::move(tensor.shape), data.subspan(tensor.begin, tensor.end - tensor.begin)};
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) Fail("{}: cannot open: {}", Shown(path, 120), std::strerror(errno));
    fstat(file, &status);  // of the file that was opened, should another have taken its place
    mapping_bytes_ = static_cast<size_t>(status.st_size);
    mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ, MAP_PRIVATE, file, 0);
    const int error = errno;
    close(file);
    if (mapping_ == MAP_FAILED) Fail("{}: cannot map: {}", Shown(path, 120), std::strerror(error));
    guard_.emplace(mapping_, mapping_bytes_, path);
  } else {  // a pipe may be opened only once: its writer ends with the first reader
    contents_ = ReadStream(path);
  }
  const auto* begin =
      mapping_ ? static_cast<const std::byte*>(mapping_) : reinterpret_cast<const std::byte*>(contents_.data());
  try {
    ParseSafetensors({begin, mapping_ ? mapping_bytes_ : contents_.size()}, Shown(path, 120), tensors_, metadata_);
  } catch (...) {
    guard_.reset();
    if (mapping_) munmap(mapping_, mapping_bytes_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  guard_.reset();
  if (mapping_) munmap(mapping_, mapping_bytes_);
}

const TensorView* SafetensorsFile::Find(std::string_view name) const {
  const auto found = tensors_.find(std::string(name));
  return found == tensors_.end() ? nullptr : &found->second;
}

const TensorView& SafetensorsFile::Get(std::string_view name, DType dtype) const {
  const std::string tensor = fmt::format("{}: tensor \"{}\"", Shown(path_, 120), Shown(name, 100));
  const TensorView* view = Find(name);
  if (view == nullptr) Fail("{} is missing", tensor);
  if (view->dtype != dtype) Fail("{} has dtype {}, expected {}", tensor, Name(view->dtype), Name(dtype));
  return *view;
}

const TensorView& SafetensorsFile::Get(std::string_view name, DType dtype, std::span<const int64_t> shape) const {
  const TensorView& view = Get(name, dtype);
  const bool fits = std::equal(shape.begin(), shape.end(), view.shape.begin(), view.shape.end(),
                               [](int64_t want, int64_t got) { return want == -1 || want == got; });
  if (!fits) {
    std::vector<std::string> wanted;
    for (const int64_t size : shape) wanted.push_back(size == -1 ? "any" : std::to_string(size));
    Fail("{}: tensor \"{}\" has shape {}, expected [{}]", Shown(path_, 120), Shown(name, 100), ShapeText(view.shape),
         fmt::join(wanted, ", "));
  }
  return view;
}

void WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return ItemSize(a->view.dtype) > ItemSize(b->view.dtype);
  });

  Json header = Json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const NamedTensor* tensor : order) {
    const std::string where = fmt::format("{}: tensor \"{}\"", Shown(path, 120), Shown(tensor->name, 100));
    if (tensor->name == kMetadataKey || !names.insert(tensor->name).second) Fail("{}: the name is taken", where);
    const uint64_t bytes = BytesOf(tensor->view.dtype, tensor->view.shape, where);
    if (bytes != tensor->view.bytes.size())
      Fail("{} of {} {} has {} bytes, expected {}", where, Name(tensor->view.dtype), ShapeText(tensor->view.shape),
           tensor->view.bytes.size(), bytes);
    AppendMember(header, tensor->name,
                 Json{{"dtype", Name(tensor->view.dtype)},
                      {"shape", tensor->view.shape},
                      {"data_offsets", {offset, offset + bytes}}});
    offset += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    Fail("{}: a tensor's name or the metadata is not valid UTF-8", Shown(path, 120));
  }
  constexpr size_t kAlignment = 8;  // of the data: the largest item
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');

  AtomicFile file(path);
  const uint64_t header_bytes = text.size();
  file.Write(&header_bytes, sizeof(header_bytes));
  file.Write(text);
  for (const NamedTensor* tensor : order) file.Write(tensor->view.bytes.data(), tensor->view.bytes.size());
  file.Commit();
}

}  // namespace lshformer
