#include "io/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

class WeightFilesTest : public ::testing::Test {
 protected:
  // A file of one-element tensors whose value is the length of their name.
  void Shard(const std::string& file, const std::vector<std::string>& names) {
    std::vector<float> values;
    for (const std::string& name : names) values.push_back(static_cast<float>(name.size()));
    std::vector<NamedTensor> tensors;
    for (size_t i = 0; i < names.size(); ++i)
      tensors.push_back({names[i], {DType::kF32, {1}, std::as_bytes(std::span(values).subspan(i, 1))}});
    WriteSafetensors(folder_ / file, tensors);
  }
  void Index(const std::string& weight_map) {
    folder_.Write("model.safetensors.index.json", "{\"metadata\": {}, \"weight_map\": " + weight_map + "}");
  }
  std::string ErrorOfOpening() {
    return ErrorOf([&] { WeightFiles files(folder_.path()); });
  }
  TempFolder folder_;
};

TEST_F(WeightFilesTest, OneFile) {
  Shard("model.safetensors", {"a", "bb"});
  Index("{}");  // not looked at
  const WeightFiles files(folder_.path());
  EXPECT_THAT(files.names(), ElementsAre("a", "bb"));
  EXPECT_EQ(files.path(), folder_ / "model.safetensors");
  EXPECT_EQ(files.FileOf("bb"), folder_ / "model.safetensors");
  EXPECT_EQ(files.Find("c"), nullptr);
}

TEST_F(WeightFilesTest, ShardsAreOneModel) {
  Shard("one.safetensors", {"a", "ccc"});
  Shard("two.safetensors", {"bb"});
  Index(R"({"a": "one.safetensors", "bb": "two.safetensors", "ccc": "one.safetensors"})");
  const WeightFiles files(folder_.path());
  EXPECT_THAT(files.names(), ElementsAre("a", "bb", "ccc"));
  EXPECT_EQ(files.files().size(), 2u);
  EXPECT_EQ(files.FileOf("bb"), folder_ / "two.safetensors");
  for (const std::string& name : files.names()) {
    std::vector<float> value(1);
    CopyTo(*files.Find(name), std::span(value), name);
    EXPECT_EQ(value[0], static_cast<float>(name.size())) << name;
  }
}

TEST_F(WeightFilesTest, SaysWhatIsWrong) {
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("model.safetensors: no such file"));
  folder_.Write("pytorch_model.bin", "");
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("has pytorch_model.bin but no model.safetensors"));
  Shard("one.safetensors", {"a", "b"});
  Index(R"({"a": "one.safetensors", "b": "two.safetensors"})");
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("lists tensor \"b\" in \"two.safetensors\", but \"one.safetensors\" has it"));
  Index(R"({"a": "one.safetensors", "c": "two.safetensors"})");
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("names the shard \"two.safetensors\", which is missing"));
  Shard("two.safetensors", {"c", "a"});
  EXPECT_THAT(ErrorOfOpening(),
              AllOf(HasSubstr("two.safetensors: tensor \"a\" is in "), HasSubstr("one.safetensors too")));
  Index(R"({"d": "one.safetensors"})");
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("tensor \"d\" is not in the shard \"one.safetensors\""));
  folder_.Write("torn.safetensors", "xx");
  Index(R"({"a": "torn.safetensors"})");
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("torn.safetensors: has 2 bytes"));
}

TEST_F(WeightFilesTest, AnIndexListsEveryTensorOfItsShards) {
  Shard("one.safetensors", {"a", "forgotten"});
  Index(R"({"a": "one.safetensors"})");
  EXPECT_THAT(ErrorOfOpening(), AllOf(HasSubstr("index.json: does not list tensor \"forgotten\", which "),
                                      HasSubstr("one.safetensors has")));
}

TEST_F(WeightFilesTest, NamesDoNotLeadOut) {
  Shard("one.safetensors", {"a"});
  for (const char* name : {"", ".", "..", "../x", "/etc/passwd", "sub/one.safetensors", "a\\\\b", "one\\u0000"}) {
    Index("{\"a\": \"" + std::string(name) + "\"}");
    EXPECT_THAT(ErrorOfOpening(), HasSubstr("expected the name of a file in this folder")) << name;
  }
  Index("{\"a\": \"" + std::string(5000, 'a') + "\"}");
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("expected the name of a file in this folder"));
  Index(R"({"a": 3})");
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("expected the name of a file, got 3"));
  Index("{}");
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("\"weight_map\" is empty"));
  folder_.Write("model.safetensors.index.json", "[]");
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("expected an object \"weight_map\""));
}

}  // namespace
}  // namespace lshformer
