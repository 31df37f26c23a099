#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TempFolder;

template <class T>
TensorView ViewOf(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  return {dtype, std::move(shape), std::as_bytes(std::span(values))};
}

std::string FileBytes(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  std::string file(sizeof(size), '\0');
  std::memcpy(file.data(), &size, sizeof(size));
  return file + header + data;
}

std::string ParseError(const std::string& file) {
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> metadata;
  return ErrorOf([&] { ParseSafetensors(std::as_bytes(std::span(file)), "m.safetensors", tensors, metadata); });
}
std::string ParseError(const std::string& header, const std::string& data) {
  return ParseError(FileBytes(header, data));
}

TEST(Safetensors, ThereAndBack) {
  TempFolder folder;
  const std::vector<float> weight{1, -2, 3.5f, 0, 5, 6};
  const std::vector<int64_t> ids{-7, 1LL << 40};
  const std::vector<uint8_t> flags{1, 0, 1};
  const std::vector<float> none;
  const std::vector<double> scalar{0.25};
  const std::string path = folder / "m.safetensors";
  WriteSafetensors(path,
                   {{"flags", ViewOf(DType::kBool, {3}, flags)},
                    {"weight", ViewOf(DType::kF32, {2, 3}, weight)},
                    {"empty", ViewOf(DType::kF32, {0, 4}, none)},
                    {"ids é", ViewOf(DType::kI64, {2}, ids)},
                    {"scalar", ViewOf(DType::kF64, {}, scalar)}},
                   {{"format", "pt"}, {"note", "a \"quoted\" line\n"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), 5u);
  EXPECT_THAT(file.metadata(), ElementsAre(std::pair("format", "pt"), std::pair("note", "a \"quoted\" line\n")));

  std::vector<float> got(6);
  const int64_t shape[] = {2, -1};
  CopyTo<float>(file.Get("weight", DType::kF32, shape), got, "weight");
  EXPECT_EQ(got, weight);
  std::vector<int64_t> got_ids(2);
  CopyTo<int64_t>(file.Get("ids é", DType::kI64), got_ids, "ids");
  EXPECT_EQ(got_ids, ids);
  double got_scalar = 0;
  CopyTo<double>(file.Get("scalar", DType::kF64), std::span(&got_scalar, 1), "scalar");
  EXPECT_EQ(got_scalar, 0.25);
  EXPECT_THAT(file.Find("empty")->shape, ElementsAre(0, 4));
  EXPECT_EQ(file.Find("empty")->elements(), 0);
  EXPECT_EQ(file.Find("none"), nullptr);
  for (const auto& [name, view] : file.tensors())
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.bytes.data()) % ItemSize(view.dtype), 0u) << name << " is not aligned";
}

TEST(Safetensors, NoTensorsAtAll) {
  TempFolder folder;
  WriteSafetensors(folder / "m.safetensors", {});
  EXPECT_TRUE(SafetensorsFile(folder / "m.safetensors").tensors().empty());
}

// The same bytes for the same content, as checkpoints that are compared need.
TEST(Safetensors, LayoutIsFixed) {
  TempFolder folder;
  const std::vector<uint8_t> byte{7};
  const std::vector<float> number{1};
  WriteSafetensors(folder / "m", {{"b", ViewOf(DType::kU8, {1}, byte)}, {"a", ViewOf(DType::kF32, {1}, number)}});
  std::string header =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(folder.Read("m"), FileBytes(header, std::string("\0\0\x80\x3F\x07", 5)));
}

TEST(Safetensors, GetSaysWhatItExpected) {
  TempFolder folder;
  const std::vector<float> values(6);
  const std::string path = folder / "m.safetensors";
  WriteSafetensors(path, {{"w", ViewOf(DType::kF32, {2, 3}, values)}});
  const SafetensorsFile file(path);
  const int64_t wrong[] = {3, 2}, longer[] = {2, 3, 1}, right[] = {2, 3};
  EXPECT_EQ(ErrorOf([&] { file.Get("v", DType::kF32); }), path + ": tensor \"v\" is missing");
  EXPECT_EQ(ErrorOf([&] { file.Get("w", DType::kI32); }), path + ": tensor \"w\" has dtype F32, expected I32");
  EXPECT_EQ(ErrorOf([&] { file.Get("w", DType::kF32, wrong); }),
            path + ": tensor \"w\" has shape [2, 3], expected [3, 2]");
  EXPECT_EQ(ErrorOf([&] { file.Get("w", DType::kF32, longer); }),
            path + ": tensor \"w\" has shape [2, 3], expected [2, 3, 1]");
  // A scalar's shape is a shape, not the absence of one: whoever copies one value must not get six.
  EXPECT_EQ(ErrorOf([&] { file.Get("w", DType::kF32, std::vector<int64_t>{}); }),
            path + ": tensor \"w\" has shape [2, 3], expected []");
  EXPECT_EQ(ErrorOf([&] {
              file.Get("w", DType::kF32, std::vector<int64_t>{-1, -1, 3});
            }),
            path + ": tensor \"w\" has shape [2, 3], expected [any, any, 3]");
  EXPECT_EQ(file.Get("w", DType::kF32, right).elements(), 6);
  EXPECT_EQ(file.Get("w", DType::kF32, std::vector<int64_t>{-1, 3}).elements(), 6);
}

TEST(Safetensors, RefusesDamagedFiles) {
  EXPECT_EQ(ParseError(""), "m.safetensors: has 0 bytes, expected a safetensors file of at least 8");
  EXPECT_EQ(ParseError("1234567"), "m.safetensors: has 7 bytes, expected a safetensors file of at least 8");
  EXPECT_EQ(
      ParseError(std::string(8, '\xFF')),
      "m.safetensors: the header has 18446744073709551615 bytes, the limit is 100000000 (not a safetensors file?)");
  EXPECT_EQ(ParseError(FileBytes("{}  ", "").substr(0, 11)),
            "m.safetensors: the header has 4 bytes, the file only 3 more (truncated file?)");
  EXPECT_EQ(ParseError("[]", ""), "m.safetensors: the header does not begin with '{' (not a safetensors file?)");
  EXPECT_EQ(ParseError(" {}", ""), "m.safetensors: the header does not begin with '{' (not a safetensors file?)");
  EXPECT_EQ(ParseError(std::string(8, '\0')),
            "m.safetensors: the header does not begin with '{' (not a safetensors file?)");
  EXPECT_THAT(ParseError("{\"a\":", ""), StartsWith("m.safetensors: header: invalid JSON at column 5: "));
  EXPECT_THAT(ParseError("{} x", ""), StartsWith("m.safetensors: header: invalid JSON"));
  EXPECT_THAT(ParseError("{\"\xFF\":1}", ""), StartsWith("m.safetensors: header: invalid JSON"));
  EXPECT_EQ(ParseError("{}", "x"), "m.safetensors: the data has 1 bytes, the tensors of the header take 0");
  EXPECT_THAT(ParseError("{}   ", ""), StartsWith("(nothing"));
}

std::string Entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
std::string TensorError(const std::string& entry, const std::string& data) {
  const std::string message = ParseError("{\"w\":" + entry + "}", data), prefix = "m.safetensors: tensor \"w\"";
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

TEST(Safetensors, RefusesWrongEntries) {
  const std::string data(8, 'x');
  EXPECT_THAT(TensorError(Entry("\"F32\"", "[2]", "[0,8]"), data), StartsWith("(nothing"));
  EXPECT_EQ(TensorError("5", data), ": expected an object, got 5");
  EXPECT_EQ(TensorError("[]", data), ": expected an object, got a list of 0 values");
  EXPECT_EQ(TensorError(R"({"shape":[2],"data_offsets":[0,8]})", data), ": \"dtype\" is missing");
  EXPECT_EQ(TensorError(Entry("3", "[2]", "[0,8]"), data), ": \"dtype\": expected a string, got 3");
  EXPECT_EQ(TensorError(Entry("\"F31\"", "[2]", "[0,8]"), data), " has the unknown dtype \"F31\"");
  EXPECT_EQ(TensorError(R"({"dtype":"F32","data_offsets":[0,8]})", data), ": \"shape\": expected a list of sizes");
  EXPECT_EQ(TensorError(Entry("\"F32\"", "2", "[0,8]"), data), ": \"shape\": expected a list of sizes");
  EXPECT_EQ(TensorError(Entry("\"F32\"", "[-2]", "[0,8]"), data), ": \"shape\": expected sizes of 0 or more, got -2");
  EXPECT_EQ(TensorError(Entry("\"F32\"", "[2.0]", "[0,8]"), data), ": \"shape\": expected sizes of 0 or more, got 2.0");
  EXPECT_EQ(TensorError(Entry("\"F32\"", "[18446744073709551615]", "[0,8]"), data),
            ": \"shape\": expected sizes of 0 or more, got 18446744073709551615");
  EXPECT_EQ(TensorError(Entry("\"F32\"", "[4294967296,4294967296]", "[0,8]"), data),
            " has the impossible shape [4294967296, 4294967296]");
  EXPECT_EQ(TensorError(Entry("\"F64\"", "[1152921504606846976]", "[0,8]"), data),
            " has the impossible shape [1152921504606846976]");
  EXPECT_EQ(TensorError(R"({"dtype":"F32","shape":[2]})", data), ": \"data_offsets\": expected [begin, end]");
  for (const char* offsets : {"[0]", "[0,8,8]", "[0,-8]", "[0,8.0]", "8", "[\"0\",8]"})
    EXPECT_EQ(TensorError(Entry("\"F32\"", "[2]", offsets), data), ": \"data_offsets\": expected [begin, end]")
        << offsets;
  EXPECT_EQ(TensorError(Entry("\"F32\"", "[2]", "[8,0]"), data), ": \"data_offsets\" [8, 0] run backwards");
  EXPECT_EQ(TensorError(Entry("\"F32\"", "[4]", "[0,16]"), data),
            " ends at byte 16 of the data, which has 8 (truncated file?)");
  EXPECT_EQ(TensorError(Entry("\"F32\"", "[1]", "[0,8]"), data), " of F32 [1] takes 4 bytes, its \"data_offsets\" 8");
  EXPECT_EQ(TensorError(Entry("\"F32\"", "[0,4294967296,4294967296,4294967296]", "[0,8]"), data),
            " of F32 [0, 4294967296, 4294967296, 4294967296] takes 0 bytes, its \"data_offsets\" 8");
  std::string many = "[1";
  for (int i = 0; i < 32; ++i) many += ",1";
  EXPECT_EQ(TensorError(Entry("\"F32\"", many + "]", "[0,4]"), data), " has 33 dimensions, the limit is 32");
}

TEST(Safetensors, RefusesOverlapsAndHoles) {
  const auto two = [](const char* first, const char* second) {
    return "{\"a\":" + Entry("\"U8\"", "[4]", first) + ",\"b\":" + Entry("\"U8\"", "[4]", second) + "}";
  };
  const std::string data(8, 'x');
  EXPECT_THAT(ParseError(two("[0,4]", "[4,8]"), data), StartsWith("(nothing"));
  EXPECT_THAT(ParseError(two("[4,8]", "[0,4]"), data), StartsWith("(nothing"));
  EXPECT_EQ(ParseError(two("[0,4]", "[2,6]"), std::string(6, 'x')), "m.safetensors: tensor \"b\" overlaps \"a\"");
  EXPECT_EQ(ParseError(two("[0,4]", "[0,4]"), std::string(4, 'x')), "m.safetensors: tensor \"b\" overlaps \"a\"");
  EXPECT_EQ(ParseError(two("[0,4]", "[5,9]"), std::string(9, 'x')),
            "m.safetensors: bytes 4 to 5 of the data, before tensor \"b\", belong to no tensor");
  EXPECT_EQ(ParseError(two("[1,5]", "[5,9]"), std::string(9, 'x')),
            "m.safetensors: bytes 0 to 1 of the data, before tensor \"a\", belong to no tensor");
  EXPECT_EQ(ParseError(two("[0,4]", "[4,8]"), std::string(9, 'x')),
            "m.safetensors: the data has 9 bytes, the tensors of the header take 8");
}

TEST(Safetensors, RefusesDuplicateNamesAndBadMetadata) {
  const std::string entry = Entry("\"U8\"", "[0]", "[0,0]");
  EXPECT_EQ(ParseError("{\"a\":" + entry + ",\"a\":" + entry + "}", ""),
            "m.safetensors: header: duplicate key \"a\" in JSON");
  EXPECT_EQ(ParseError(R"({"__metadata__":{"format":1}})", ""),
            "m.safetensors: \"__metadata__\": \"format\": expected a string, got 1");
  EXPECT_EQ(ParseError(R"({"__metadata__":[]})", ""),
            "m.safetensors: \"__metadata__\": expected an object of strings, got a list of 0 values");
  EXPECT_THAT(ParseError(R"({"__metadata__":{"a":{"b":{"c":1}}}})", ""), HasSubstr("nested deeper than 3 levels"));
}

TEST(Safetensors, AHostileHeaderIsRefusedWithoutMuchMemory) {
  std::string header = "{";
  while (header.size() < 20'000'000) header += "\"" + std::to_string(header.size()) + "\":[],";
  EXPECT_THAT(ParseError(header + "\"z\":[]}", ""), HasSubstr(": expected an object, got a list"));
  EXPECT_THAT(ParseError(std::string("{\"a\":[") + std::string(9'000'000, '0'), ""),
              StartsWith("m.safetensors: header: invalid JSON"));
  std::string zeros = "{\"a\":[0";
  for (int i = 0; i < 5'000'000; ++i) zeros += ",0";
  EXPECT_EQ(ParseError(zeros, ""), "m.safetensors: header: JSON has more than 4194304 values");
}

// Every way to cut a good file short, and every single byte of its header changed: an Error or a valid file, never a
// crash.
TEST(Safetensors, CutAndChangedFiles) {
  TempFolder folder;
  const std::vector<float> a{1, 2};
  const std::vector<uint8_t> b{3};
  WriteSafetensors(folder / "m", {{"a", ViewOf(DType::kF32, {2}, a)}, {"b", ViewOf(DType::kU8, {1}, b)}},
                   {{"format", "pt"}});
  const std::string file = folder.Read("m");
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_THAT(ParseError(file.substr(0, size)), StartsWith("m.safetensors: "));
  for (size_t i = 0; i < file.size() - 9; ++i)
    for (const char byte : {'\0', '\xFF', '"', '9', ' ', '}'}) {
      std::string changed = file;
      changed[i] = byte;
      EXPECT_THAT(ParseError(changed), ::testing::AnyOf(StartsWith("m.safetensors: "), StartsWith("(nothing")));
    }
}

TEST(SafetensorsFile, NamesTheFile) {
  TempFolder folder;
  EXPECT_EQ(ErrorOf([&] { SafetensorsFile file(folder / "none"); }),
            folder / "none" + ": cannot open: No such file or directory");
  EXPECT_EQ(ErrorOf([&] { SafetensorsFile file(folder.path()); }), folder.path() + ": is a folder, expected a file");
  const std::string empty = folder.Write("empty", "");
  EXPECT_EQ(ErrorOf([&] { SafetensorsFile file(empty); }),
            empty + ": has 0 bytes, expected a safetensors file of at least 8");
  EXPECT_EQ(ErrorOf([&] { SafetensorsFile file("/dev/zero"); }),
            "/dev/zero: the header does not begin with '{' (not a safetensors file?)");
}

TEST(SafetensorsFile, FromAPipe) {
  TempFolder folder;
  const std::vector<float> values{1, 2};
  WriteSafetensors(folder / "m", {{"w", ViewOf(DType::kF32, {2}, values)}});
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { WriteFileAtomically(pipe, folder.Read("m")); });
  const SafetensorsFile file(pipe);
  writer.join();
  std::vector<float> got(2);
  CopyTo<float>(file.Get("w", DType::kF32), got, "w");
  EXPECT_EQ(got, values);
}

// What follows the bad part never comes: a reader that waited for it would hang.
TEST(SafetensorsFile, APipeIsRefusedAtItsFirstWrongPart) {
  TempFolder folder;
  const auto error_of = [&](const std::string& written) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(write(ends[1], written.data(), written.size()), static_cast<ssize_t>(written.size()));
    const std::string error = ErrorOf([&] { SafetensorsFile file("/dev/fd/" + std::to_string(ends[0])); });
    close(ends[0]);
    close(ends[1]);
    return error;
  };
  EXPECT_THAT(error_of(std::string(8, '\xFF')), HasSubstr("the limit is 100000000 (not a safetensors file?)"));
  EXPECT_THAT(error_of(FileBytes("[]", "")), HasSubstr("the header does not begin with '{'"));
  EXPECT_THAT(error_of(FileBytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", "")),
              HasSubstr("takes 4 bytes, its \"data_offsets\" 8"));
  const std::string endless = R"({"a":{"dtype":"U8","shape":[9000000000],"data_offsets":[0,9000000000]}})";
  EXPECT_THAT(error_of(FileBytes(endless, "")), HasSubstr("the limit of what is no plain file is 4294967296"));
  const std::string one = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  EXPECT_THAT(error_of(FileBytes(one, "xy")), HasSubstr("goes on after the 1 bytes that the tensors"));
}

// A header of odd length shifts the data; HF's own files are aligned, others' need not be.
TEST(TensorView, UnalignedValuesAreRead) {
  const float values[] = {1.5f, -2};
  const std::string data(reinterpret_cast<const char*>(values), sizeof(values));
  for (size_t padding = 0; padding < 4; ++padding) {
    const std::string file =
        FileBytes("{\"w\":" + Entry("\"F32\"", "[2]", "[0,8]") + "}" + std::string(padding, ' '), data);
    std::map<std::string, TensorView> tensors;
    std::map<std::string, std::string> metadata;
    ParseSafetensors(std::as_bytes(std::span(file)), "m", tensors, metadata);
    std::vector<float> got(2);
    CopyTo<float>(tensors.at("w"), got, "w");
    EXPECT_THAT(got, ElementsAre(1.5f, -2));
  }
}

TEST(TensorView, CopyToChecksTypeAndCount) {
  const std::vector<float> values{1, 2};
  const TensorView view = ViewOf(DType::kF32, {2}, values);
  std::vector<float> three(3);
  std::vector<int32_t> ids(2);
  EXPECT_EQ(ErrorOf([&] { CopyTo<float>(view, three, "w"); }), "w has 2 elements, expected 3");
  EXPECT_EQ(ErrorOf([&] { CopyTo<int32_t>(view, ids, "w"); }), "w has dtype F32, expected I32");
  EXPECT_EQ(ErrorOf([&] { ConvertTo(view, three, "w"); }), "w has 2 elements, expected 3");
  EXPECT_EQ(ErrorOf([&] { ConvertTo(ViewOf(DType::kI32, {2}, ids), std::span(three).first(2), "w"); }),
            "w has dtype I32, expected F32, F64, F16 or BF16");
}

TEST(TensorView, HalfPrecisionConvertsExactly) {
  // IEEE 754: 1, -2, the largest, the smallest normal, the smallest and largest subnormal, -0, infinities.
  const std::vector<uint16_t> half{0x3C00, 0xC000, 0x7BFF, 0x0400, 0x0001, 0x03FF, 0x8000, 0x7C00, 0xFC00, 0x8001};
  std::vector<float> got(half.size());
  ConvertTo(ViewOf(DType::kF16, {10}, half), got, "w");
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_THAT(got, ElementsAre(1, -2, 65504, 0x1p-14f, 0x1p-24f, 1023 * 0x1p-24f, 0, inf, -inf, -0x1p-24f));
  EXPECT_TRUE(std::signbit(got[6]));
  const std::vector<uint16_t> nan{0x7E01};
  ConvertTo(ViewOf(DType::kF16, {1}, nan), std::span(got).first(1), "w");
  EXPECT_TRUE(std::isnan(got[0]));

  const std::vector<uint16_t> brain{0x3F80, 0xC000, 0x0001, 0x7F80};
  ConvertTo(ViewOf(DType::kBF16, {4}, brain), std::span(got).first(4), "w");
  EXPECT_THAT(std::vector<float>(got.begin(), got.begin() + 4), ElementsAre(1, -2, 0x1p-133f, inf));
  const std::vector<double> wide{0.1, 1e300};
  ConvertTo(ViewOf(DType::kF64, {2}, wide), std::span(got).first(2), "w");
  EXPECT_THAT(std::vector<float>(got.begin(), got.begin() + 2), ElementsAre(0.1f, inf));
}

// All 65,536 halves: the value is what the format's definition says.
TEST(TensorView, EveryHalf) {
  std::vector<uint16_t> half(65536);
  for (size_t i = 0; i < half.size(); ++i) half[i] = static_cast<uint16_t>(i);
  std::vector<float> got(half.size());
  ConvertTo(ViewOf(DType::kF16, {65536}, half), got, "w");
  for (size_t i = 0; i < half.size(); ++i) {
    const int exponent = (i >> 10) & 31, fraction = i & 1023, sign = i >> 15 ? -1 : 1;
    if (exponent == 31) {
      ASSERT_EQ(std::isnan(got[i]), fraction != 0);
      ASSERT_EQ(std::isinf(got[i]), fraction == 0);
      continue;
    }
    const double want = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(got[i], sign * want) << i;
  }
}

TEST(WriteSafetensors, RefusesWhatItCouldNotReadBack) {
  TempFolder folder;
  const std::vector<float> values{1, 2};
  const TensorView view = ViewOf(DType::kF32, {2}, values);
  const std::string path = folder.Write("m", "old");
  const auto error = [&](const std::vector<NamedTensor>& tensors) {
    const std::string message = ErrorOf([&] { WriteSafetensors(path, tensors); });
    return message.starts_with(path) ? message.substr(path.size()) : message;
  };
  EXPECT_EQ(error({{"a", view}, {"a", view}}), ": tensor \"a\": the name is taken");
  EXPECT_EQ(error({{"__metadata__", view}}), ": tensor \"__metadata__\": the name is taken");
  EXPECT_EQ(error({{"a", ViewOf(DType::kF32, {3}, values)}}), ": tensor \"a\" of F32 [3] has 8 bytes, expected 12");
  EXPECT_EQ(error({{"a", ViewOf(DType::kF32, {-2}, values)}}), ": tensor \"a\" has the impossible shape [-2]");
  EXPECT_EQ(error({{"\xFF", view}}), ": a tensor's name or the metadata is not valid UTF-8");
  EXPECT_EQ(folder.Read("m"), "old");
  EXPECT_EQ(folder.entries(), 1u);
}

}  // namespace
}  // namespace lshformer
