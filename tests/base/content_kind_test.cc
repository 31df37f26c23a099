#include "base/content_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using std::string_literals::operator""s;
using ::testing::AllOf;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Foreign {
  std::string front;
  const char* what;
  const char* cure;
};

// A header of tar, as far as it is looked at.
std::string Tar(const std::string& name) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  header.replace(257, 6, "ustar ");
  return header;
}

std::vector<Foreign> AllForeign() {
  const std::string wide = "t\0h\0e\0 \0b\0o\0a\0t\0 \0i\0s\0"s, rest(40, 'x');
  return {{"\xFF\xFE" + wide, "UTF-16 text", "iconv -f UTF-16"},
          {"\xFE\xFF\0t\0h"s, "UTF-16 text", "iconv -f UTF-16"},
          {wide, "UTF-16 text", "iconv"},
          {"\0" + wide.substr(0, wide.size() - 1), "UTF-16 text", "iconv"},
          {"\xFF\xFE\0\0t\0\0\0"s, "UTF-32 text", "iconv -f UTF-32"},
          {"\0\0\xFE\xFF\0\0\0t"s, "UTF-32 text", "iconv -f UTF-32"},
          {"BZh91AY&SY" + rest, "bzip2", "bzip2 -d"},
          {"\xFD" + "7zXZ\0\0"s + rest, "xz", "xz -d"},
          {"\x28\xB5\x2F\xFD" + rest, "zstd", "zstd -d"},
          {"\x04\x22\x4D\x18" + rest, "lz4", "lz4 -d"},
          {"7z\xBC\xAF\x27\x1C" + rest, "7z archive", "7z x"},
          {"PK\x03\x04" + rest, "zip archive", "unzip"},
          {"\x1F\x8B\x08" + rest, "gzip", "gzip -d"},
          {"]\0\0\x80\0\xFF"s + rest, "lzma", "xz -d"},
          {"LZIP\x01\x0C" + rest, "lzip", "lzip -d"},
          {"\x1F\x9D\x90" + rest, "packed with compress", "gzip -d"},
          {"Rar!\x1A\x07\x01\0"s + rest, "RAR archive", "unrar x"},
          {"PK\x05\x06" + std::string(18, '\0'), "empty zip archive", "contents"},
          {Tar("a/s.csv"), "tar archive", "tar -xf"},
          {Tar(std::string(100, 'n')), "tar archive", "tar -xf"},
          {"SQLite format 3\0\x10"s + rest, "database of SQLite", "export"},
          {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1" + rest, "document of Office", "export"},
          {"Obj\x01\x04\x14" + rest, "Avro", "JSON lines"},
          {"ORC\x0A\x0B" + rest, "ORC", "JSON lines"},
          {"PAR1\x15\x04" + rest, "Parquet", "JSON lines"},
          {"ARROW1\0\0"s + rest, "Arrow", "JSON lines"},
          {"\x89HDF\r\n\x1A\n" + rest, "HDF5", "safetensors"},
          {"\x80\x02}q\x01", "pickle", "safetensors"},
          {"\x93NUMPY\x01", "NumPy", "text"},
          {"%PDF-1.7\n", "PDF", "pdftotext"},
          {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n", "Git LFS pointer", "git lfs pull"},
          {"<!DOCTYPE html>\n<html>", "page of HTML", "again"},
          {"\n<HTML lang=\"en\">", "page of HTML", "again"}};
}

TEST(ContentKind, IsNamedWithWhatToDo) {
  for (const Foreign& foreign : AllForeign())
    EXPECT_THAT(ErrorOf([&] { RefuseForeignContent(foreign.front, "data.txt"); }),
                AllOf(StartsWith("data.txt: is "), HasSubstr(foreign.what), HasSubstr(foreign.cure)))
        << foreign.what;
}

TEST(ContentKind, TextsAreNoneOfThem) {
  for (const std::string& text : {""s,
                                  "a"s,
                                  "The boat."s,
                                  "\xEF\xBB\xBFmarked"s,
                                  "PAR1 is a course"s,
                                  "BZh is no word"s,
                                  "PK"s,
                                  "<p>a</p>"s,
                                  "7z"s,
                                  "versions differ"s,
                                  "version https://example.com"s,
                                  "\xD0\x9F\xD1\x80\xD0\xB8"s,
                                  "a\0b\0c"s,
                                  "{\"text\": 1}"s,
                                  std::string(100, '\0'),
                                  "\xE2\x82\xAC"s,
                                  "ARROW1 is a name"s,
                                  "%PD"s,
                                  "ORC is a name"s,
                                  "Obj 1"s,
                                  "SQLite format 3 is"s,
                                  "] a"s,
                                  "Rar! it said"s,
                                  std::string(257, 'a') + "ustar "})
    EXPECT_NO_THROW(RefuseForeignContent(text, "a")) << text;
}

// Zero bytes at even and at odd places are no encoding.
TEST(ContentKind, ZerosAloneAreNotUtf16) {
  EXPECT_NO_THROW(RefuseForeignContent("a\0b\0c\0\0d\0e\0f\0g\0h\0i\0j\0k"s, "a"));
  EXPECT_NO_THROW(RefuseForeignContent("words and a single zero\0 byte among them"s, "a"));
}

TEST(ContentKind, ReadersOfTextTakePagesAndUnpackGzip) {
  EXPECT_NO_THROW(RefuseForeignContent("<html>", "a", {.text_of_any_kind = true}));
  EXPECT_NO_THROW(RefuseForeignContent("\x1F\x8B\x08", "a", {.unpacks_gzip = true}));
}

// A pipe gives a byte at a time: waiting goes on as long as the bytes may begin such a file, and no longer.
TEST(ContentKind, ABeginningMayBecomeForeign) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1";
  for (size_t size = 0; size < 39; ++size) EXPECT_TRUE(MayBecomeForeign(pointer.substr(0, size))) << size;
  EXPECT_FALSE(MayBecomeForeign(pointer)) << "it has";
  for (const char* text : {"the", "vex", "{", "PL"}) EXPECT_FALSE(MayBecomeForeign(text)) << text;
  EXPECT_TRUE(MayBecomeForeign(Tar("a").substr(0, 200)));
  EXPECT_FALSE(MayBecomeForeign(Tar("a"))) << "it has";
}

TEST(ContentKind, JsonFilesAreLookedAtFirst) {
  testing::TempFolder folder;
  const std::string path = folder.Write("config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
  EXPECT_THAT(ErrorOf([&] { ReadJsonFile(path); }), HasSubstr("config.json: is a Git LFS pointer"));
}

}  // namespace
}  // namespace lshformer
