// What a file holds, told by its first bytes: containers, encodings and pointers that no reader of this program takes.
// Read as text they would be rubbish that goes unnoticed, and read as weights or JSON they give errors that mislead.
//
// Known: UTF-16 and UTF-32 (by their marks; UTF-16 without one where its zero bytes leave no doubt), gzip, bzip2, xz,
// lzma, lzip, zstd, lz4, compress, tar, 7z, RAR, zip (and with it torch.save and .xlsx), pickles, Parquet, ORC, Avro,
// Arrow and Feather, SQLite, older files of Office, HDF5, NumPy's .npy, PDF, Git LFS pointers, and pages of HTML.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lshformer {

// Bytes from a file's beginning that are enough to tell.
inline constexpr size_t kContentFront = 512;

// What a reader takes that another refuses.
struct ContentReader {
  bool unpacks_gzip = false;
  bool text_of_any_kind = false;  // a page of HTML is text too
};

// Error naming `name`, what the file holds and what to do about it; nothing where `front`, its first bytes, are none of
// these.
void RefuseForeignContent(std::string_view front, std::string_view name, const ContentReader& reader = {});

// ReadFile (base/files.h) of a file that is one of a model's or a text: Error where it is such content.
std::string ReadOwnKind(const std::string& path, uint64_t limit);

// Whether `front`, all that there is so far, may with more bytes turn out to be such content: whoever reads a pipe need
// not wait for more otherwise.
bool MayBecomeForeign(std::string_view front);

}  // namespace lshformer
