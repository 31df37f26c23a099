#include "base/content_kind.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/files.h"
#include "base/lower_case.h"

namespace lshformer {
namespace {

using std::string_view_literals::operator""sv;

struct Signature {
  std::string_view bytes;
  const char* what;  // "is …"
  const char* cure;
};

constexpr const char* kUtf16Cure = "expected UTF-8 (iconv -f UTF-16 -t UTF-8)";
constexpr const char* kTableCure = "expected JSON lines, CSV or TSV; export it first";
constexpr const char* kWeightsCure = "save the model with safetensors first";

// In this order: UTF-32's mark begins with that of UTF-16. Those that could begin a text have enough further bytes to
// be no text.
constexpr std::array kSignatures{
    Signature{"\xFF\xFE\0\0"sv, "UTF-32 text", "expected UTF-8 (iconv -f UTF-32 -t UTF-8)"},
    Signature{"\0\0\xFE\xFF"sv, "UTF-32 text", "expected UTF-8 (iconv -f UTF-32 -t UTF-8)"},
    Signature{"\xFF\xFE"sv, "UTF-16 text", kUtf16Cure},
    Signature{"\xFE\xFF"sv, "UTF-16 text", kUtf16Cure},
    Signature{"BZh1\x31\x41\x59\x26\x53\x59"sv, "packed with bzip2", "unpack it first (bzip2 -d)"},
    Signature{"\xFD"
              "7zXZ\0"sv,
              "packed with xz", "unpack it first (xz -d)"},
    Signature{"\x28\xB5\x2F\xFD"sv, "packed with zstd", "unpack it first (zstd -d)"},
    Signature{"\x04\x22\x4D\x18"sv, "packed with lz4", "unpack it first (lz4 -d)"},
    Signature{"\x5D\0\0"sv, "packed with lzma", "unpack it first (xz -d)"},
    Signature{"LZIP\x01"sv, "packed with lzip", "unpack it first (lzip -d)"},
    Signature{"\x1F\x9D"sv, "packed with compress", "unpack it first (gzip -d)"},
    Signature{"Rar!\x1A\x07"sv, "a RAR archive", "unpack it first (unrar x)"},
    Signature{"7z\xBC\xAF\x27\x1C"sv, "a 7z archive", "unpack it first (7z x)"},
    Signature{"PK\x03\x04"sv, "a zip archive (torch.save writes such files too)",
              "unpack it first (unzip), or save the model with safetensors"},
    Signature{"PK\x05\x06"sv, "an empty zip archive", "expected a file with contents"},
    Signature{"SQLite format 3\0"sv, "a database of SQLite", kTableCure},
    Signature{"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, "a document of Office (Excel, Word)", kTableCure},
    Signature{"Obj\x01"sv, "an Avro file", kTableCure},
    Signature{"ARROW1\0\0"sv, "an Arrow (Feather) file", kTableCure},
    Signature{"FEA1\0"sv, "a Feather file", kTableCure},
    Signature{"\xFF\xFF\xFF\xFF\x10\0\0\0"sv, "an Arrow stream", kTableCure},
    Signature{"\x89HDF\r\n\x1A\n"sv, "an HDF5 file", kWeightsCure},
    Signature{"\x93NUMPY"sv, "an array of NumPy", "expected text"},
    Signature{"%PDF-"sv, "a PDF", "take the text out of it first (pdftotext)"},
    Signature{"version https://git-lfs.github.com/spec/"sv, "a Git LFS pointer, not the file itself",
              "fetch that first (git lfs pull)"},
};
constexpr std::string_view kGzip = "\x1F\x8B"sv;

// bzip2 says its block size with a digit.
constexpr size_t kBzip2Digit = 3;
bool AgreeAt(const Signature& signature, std::string_view front, size_t at) {
  if (front[at] == signature.bytes[at]) return true;
  return signature.bytes.starts_with("BZh") && at == kBzip2Digit && front[at] >= '1' && front[at] <= '9';
}

bool Agree(const Signature& signature, std::string_view front, size_t bytes) {
  for (size_t at = 0; at < bytes; ++at)
    if (!AgreeAt(signature, front, at)) return false;
  return true;
}

// Parquet's and ORC's marks could begin a text; behind them those have bytes that none has.
constexpr std::string_view kParquet = "PAR1", kOrc = "ORC";
constexpr size_t kBehindMark = 4;
bool IsMarked(std::string_view front, std::string_view mark) {
  if (!front.starts_with(mark)) return false;
  const std::string_view next = front.substr(mark.size(), kBehindMark);
  return std::any_of(next.begin(), next.end(),
                     [](char c) { return (c >= 0 && c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == '\x7F'; });
}

// A header of 512 bytes: a name that zeros end, and further on a mark.
constexpr std::string_view kTar = "ustar";
constexpr size_t kTarMark = 257, kTarName = 100;
bool IsTar(std::string_view front) {
  return front.size() >= kTarMark + kTar.size() && front.substr(kTarMark).starts_with(kTar) &&
         front.substr(0, kTarMark).find('\0') != front.npos;
}

// Protocols 2 to 5 begin with their number; an opcode follows that begins a frame, a number or a container.
bool IsPickle(std::string_view front) {
  return front.size() > 2 && front[0] == '\x80' && front[1] >= 2 && front[1] <= 5 &&
         "\x95\x8a}](ccX"sv.find(front[2]) != std::string_view::npos;
}

// Without a mark: mostly ASCII, whose every other byte is zero, and no zero among the others.
bool IsBareUtf16(std::string_view front) {
  constexpr size_t kFewest = 16;
  const size_t pairs = front.size() / 2;
  if (front.size() < kFewest) return false;
  size_t zeros[2] = {0, 0};
  for (size_t at = 0; at < 2 * pairs; ++at) zeros[at % 2] += front[at] == '\0' ? 1 : 0;
  return std::min(zeros[0], zeros[1]) == 0 && 4 * std::max(zeros[0], zeros[1]) >= 3 * pairs;
}

bool IsHtml(std::string_view front) {
  if (front.starts_with("\xEF\xBB\xBF")) front.remove_prefix(3);
  front.remove_prefix(std::min(front.find_first_not_of(" \t\r\n"), front.size()));
  const std::string begin = LowerCase(std::string(front.substr(0, 14)));
  return begin.starts_with("<!doctype html") || begin.starts_with("<html");
}

}  // namespace

void RefuseForeignContent(std::string_view front, std::string_view name, const ContentReader& reader) {
  front = front.substr(0, kContentFront);
  const auto refuse = [&](const char* what, const char* cure) { Fail("{}: is {}; {}", Shown(name, 160), what, cure); };
  for (const Signature& signature : kSignatures)
    if (front.size() >= signature.bytes.size() && Agree(signature, front, signature.bytes.size()))
      refuse(signature.what, signature.cure);
  if (!reader.unpacks_gzip && front.starts_with(kGzip)) refuse("packed with gzip", "unpack it first (gzip -d)");
  if (IsMarked(front, kParquet)) refuse("a Parquet file", kTableCure);
  if (IsMarked(front, kOrc)) refuse("an ORC file", kTableCure);
  if (IsTar(front)) refuse("a tar archive", "unpack it first (tar -xf)");
  if (IsPickle(front)) refuse("a pickle of Python", kWeightsCure);
  if (IsBareUtf16(front)) refuse("UTF-16 text", kUtf16Cure);
  if (!reader.text_of_any_kind && IsHtml(front))
    refuse("a page of HTML", "a download that failed often leaves one; fetch the file again");
}

std::string ReadOwnKind(const std::string& path, uint64_t limit) {
  std::string contents = ReadFile(path, limit);
  RefuseForeignContent(contents, InputName(path));
  return contents;
}

bool MayBecomeForeign(std::string_view front) {
  for (const std::string_view mark : {kParquet, kOrc})
    if (front.size() < mark.size() + kBehindMark && front.starts_with(mark.substr(0, front.size()))) return true;
  // A name and the zero behind it.
  if (front.size() < kTarMark + kTar.size() && front.substr(1, kTarName).find('\0') != front.npos && front[0] != '\0')
    return true;
  return std::any_of(kSignatures.begin(), kSignatures.end(), [&](const Signature& signature) {
    return front.size() < signature.bytes.size() && Agree(signature, front, front.size());
  });
}

}  // namespace lshformer
