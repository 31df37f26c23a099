// The command `convert`: what it keeps to, what it writes, what it refuses.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <tuple>

#include "base/json.h"
#include "cli/conversion.h"
#include "io/safetensors.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(ConvertTest, KeepsTheBudgetAndTheWeights) {
  const Json report = Convert("out", {"--budget_pairs", "0.4"});
  EXPECT_LE(report["pairs_fraction"].get<double>(), 0.4);
  EXPECT_GT(report["pairs_fraction"].get<double>(), 0.2);
  EXPECT_GT(report["cosine_mean"].get<double>(), 0.9);
  EXPECT_LE(report["cosine_worst"], report["cosine_mean"]);
  EXPECT_GT(report["time_fraction"].get<double>(), 0);
  ASSERT_EQ(report["layers"].size(), kLayers);
  ASSERT_EQ(report["layers"][1]["heads"].size(), kHeads);
  for (const Json& head : report["layers"][1]["heads"]) {
    EXPECT_GT(head["mass_recall"].get<double>(), 0);
    EXPECT_LE(head["mass_recall"].get<double>(), 1 + 1e-9);
    EXPECT_GE(head["error"].get<double>(), 0);
  }
  EXPECT_EQ(report, ReadJsonFile(folder_ / "out/convert_report.json"));
  EXPECT_THAT(folder_.Read("out/report.html"), HasSubstr("</html>"));
  // Every tensor as it was, and directions beside them.
  const SafetensorsFile before(Model() + "/model.safetensors"), after(folder_ / "out/model.safetensors");
  EXPECT_EQ(after.tensors().size(), before.tensors().size() + 2 * kLayers);
  for (const auto& [name, view] : before.tensors()) {
    const TensorView* copy = after.Find(name);
    ASSERT_NE(copy, nullptr) << name;
    EXPECT_TRUE(copy->shape == view.shape && std::equal(view.bytes.begin(), view.bytes.end(), copy->bytes.begin()));
  }
  const std::vector<int64_t> keys{kHeads, kHeadDim, 16}, queries{kHeads, kHeadDim, 6};
  EXPECT_EQ(after.Get("lshformer.attention.1.key_directions", DType::kF32).shape, keys);
  EXPECT_EQ(after.Get("lshformer.attention.1.query_directions", DType::kF32).shape, queries);
  // Other keys of the config stay.
  Json config = Config("out"), own = ReadJsonFile(Model() + "/config.json");
  EXPECT_EQ(config["attention"].size(), kLayers);
  config.erase("attention");
  own.erase("attention");
  EXPECT_EQ(config, own);
}

TEST_F(ConvertTest, ReportsTheCosineThatPredictGives) {
  const Json report = Convert("out", {"--budget_pairs", "0.4"});
  const std::vector<float> exact = Embedding(Model()), own = Embedding(folder_ / "out");
  const size_t width = kHeads * kHeadDim, texts = exact.size() / width;
  ASSERT_EQ(own.size(), exact.size());
  ASSERT_EQ(texts, 12u);
  double sum = 0, worst = 1;
  for (size_t text = 3; text < texts; text += 4) {  // those held out
    double dot = 0, a = 0, b = 0;
    for (size_t i = text * width; i < (text + 1) * width; ++i) {
      dot += static_cast<double>(exact[i]) * own[i];
      a += static_cast<double>(exact[i]) * exact[i];
      b += static_cast<double>(own[i]) * own[i];
    }
    sum += dot / std::sqrt(a * b);
    worst = std::min(worst, dot / std::sqrt(a * b));
  }
  EXPECT_NEAR(report["cosine_mean"].get<double>(), sum / 3, 1e-5);
  EXPECT_NEAR(report["cosine_worst"].get<double>(), worst, 1e-5);
  EXPECT_EQ(own, Embedding(folder_ / "out", {"--threads", "1", "--batch_tokens", "64"}));
}

TEST_F(ConvertTest, WithoutABudgetTakesTheAttentionAsAsked) {
  const Json report = Convert("out", {"--attention", "clustered", "--lsh_open", "1", "--lsh_cluster", "8"});
  EXPECT_TRUE(report["budget"].is_null());
  const Json attention = Config("out")["attention"];
  EXPECT_EQ(attention["type"], "clustered");
  EXPECT_EQ(attention["open"], 1);
  EXPECT_EQ(attention["directions"], "stored");
  EXPECT_FALSE(report.contains("seeds"));
  const Json drawn = Convert("drawn", {"--lsh_directions", "random", "--lsh_open", "1"});
  ASSERT_EQ(drawn["seeds"].size(), 5u);
  EXPECT_EQ(drawn["seeds"][0]["seed"], ParseJson(folder_.Read("drawn/config.json"), "config")["attention"]["seed"]);
  EXPECT_EQ(drawn["seeds"][0]["cosine_mean"], drawn["cosine_mean"]);
  const SafetensorsFile file(folder_ / "drawn/model.safetensors");
  EXPECT_EQ(file.Find("lshformer.attention.0.key_directions"), nullptr);
}

TEST_F(ConvertTest, TheSameTextsGiveTheSameFolder) {
  Convert("one", {"--budget_pairs", "0.3", "--threads", "1"});
  Convert("two", {"--budget_pairs", "0.3", "--threads", "2"});
  EXPECT_EQ(folder_.Read("one/config.json"), folder_.Read("two/config.json"));
  EXPECT_EQ(folder_.Read("one/model.safetensors"), folder_.Read("two/model.safetensors"));
}

// Killed, it leaves what it had begun; the next one to the same place takes that away.
TEST_F(ConvertTest, RemovesWhatAKilledOneLeft) {
  folder_.Write(".lshformer-out.2147483646.part/model.safetensors", "half");
  folder_.Write("out.2147483646.part/thesis", "of somebody else");
  Convert("out", {"--lsh_open", "1"});
  EXPECT_TRUE(fs::exists(folder_ / "out/config.json"));
  EXPECT_FALSE(fs::exists(folder_ / ".lshformer-out.2147483646.part"));
  EXPECT_EQ(folder_.Read("out.2147483646.part/thesis"), "of somebody else");
}

TEST_F(ConvertTest, OneAtATimeInAFolder) {
  const std::string other = folder_ / ".lshformer-out.2147483646.part";
  folder_.Write(".lshformer-out.2147483646.part/model.safetensors", "half");
  const int lock = open(other.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  EXPECT_THAT(Wrong(Command("out", {"--lsh_open", "1"}), 1), HasSubstr("is in use by process 2147483646"));
  EXPECT_TRUE(fs::exists(other));
  close(lock);
}

// An empty folder stays what it is, be it private or behind a link.
TEST_F(ConvertTest, AnEmptyFolderIsFilled) {
  fs::create_directory(folder_ / "large-disk");
  fs::permissions(folder_ / "large-disk", fs::perms::owner_all);
  fs::create_directory_symlink("large-disk", folder_ / "out");
  Convert("out", {"--lsh_open", "1"});
  EXPECT_TRUE(fs::is_symlink(folder_ / "out"));
  EXPECT_EQ(fs::status(folder_ / "large-disk").permissions(), fs::perms::owner_all);
  EXPECT_TRUE(fs::exists(folder_ / "large-disk/config.json"));
  EXPECT_EQ(Call({"info", folder_ / "out"}).status, 0);
  // ".." behind a link is the parent of what that leads to.
  fs::create_directories(folder_ / "data/run");
  fs::create_directory(folder_ / "data/disk");
  fs::create_directory_symlink("../disk", folder_ / "data/run/out");
  fs::create_directory_symlink("data/run", folder_ / "current");
  Convert("current/out", {"--lsh_open", "1"});
  EXPECT_TRUE(fs::exists(folder_ / "data/disk/config.json"));
  Convert("current/../beside", {"--lsh_open", "1"});
  EXPECT_TRUE(fs::exists(folder_ / "data/beside/config.json"));
  // Where one stands, under its shortest name.
  const fs::path before = fs::current_path();
  fs::create_directory(folder_ / "here");
  fs::current_path(folder_ / "here");
  Made({"convert", "--model_name_or_path", Model(), "--lsh_open", "1", "--output_dir", ".", "--calibrate", Texts()});
  fs::current_path(before);
  EXPECT_TRUE(fs::exists(folder_ / "here/config.json"));
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_.path())) ++entries;
  EXPECT_EQ(entries, 5u) << "nothing is left beside them";
}

TEST_F(ConvertTest, OtherKinds) {
  for (const std::string kind : {"simhash", "reformer", "dense"}) {
    const Json report = Convert(kind, {"--attention", kind});
    EXPECT_EQ(Config(kind)["attention"]["type"], kind);
    EXPECT_EQ(SafetensorsFile(folder_ / (kind + "/model.safetensors")).Find("lshformer.attention.0.key_directions"),
              nullptr);
    EXPECT_EQ(report["cosine_mean"].get<double>() > 1 - 1e-9, kind == "dense") << kind;
  }
  // Back from a converted folder to the exact model.
  Convert("clusters", {"--lsh_open", "1"});
  Made({"convert", "--model_name_or_path", folder_ / "clusters", "--attention", "dense", "--output_dir",
        folder_ / "exact", "--calibrate", Texts()});
  EXPECT_EQ(Embedding(folder_ / "exact"), Embedding(Model()));
}

TEST_F(ConvertTest, WritesNothingBelowTheQualityAsked) {
  Words words = Command("out", {"--budget_pairs", "0.2", "--min_quality", "1"});
  const CommandResult result = Call(words);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--min_quality: the mean cosine to the exact model is 0."),
                                HasSubstr("less than 1; nothing was written")));
  EXPECT_TRUE(WroteNothing("out"));
  EXPECT_EQ(Call(Command("new/folder", {"--budget_pairs", "0.2", "--min_quality", "1"})).status, 1);
  EXPECT_TRUE(WroteNothing("new"));
  const Json kept = Convert("kept", {"--budget_pairs", "0.4", "--min_quality", "0.5"});
  EXPECT_GE(kept["cosine_mean"].get<double>(), 0.5);
}

TEST_F(ConvertTest, RepeatsThePositionTable) {
  const CommandResult result = Call({"convert", "--model_name_or_path", Model(), "--output_dir", folder_ / "long",
                                     "--extend_positions", "400", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(Config("long")["max_position_embeddings"], 400);
  EXPECT_EQ(Config("long").value("attention", Json()),
            ReadJsonFile(Model() + "/config.json").value("attention", Json()));
  // Its report has the keys of any other.
  const Json alone = ReadJsonFile(folder_ / "long/convert_report.json");
  EXPECT_EQ(alone["pairs_fraction"], 1.0);
  EXPECT_EQ(alone["time_fraction"], 1.0);
  EXPECT_NEAR(alone["short_texts"]["cosine_worst"].get<double>(), 1, 1e-12);
  EXPECT_EQ(alone["short_texts"]["max_tokens"], kPositions);
  EXPECT_THAT(folder_.Read("long/report.html"), HasSubstr("</html>"));
  const SafetensorsFile before(Model() + "/model.safetensors"), after(folder_ / "long/model.safetensors");
  const char* name = "bert.embeddings.position_embeddings.weight";
  const TensorView *was = before.Find(name), *is = after.Find(name);
  EXPECT_EQ(is->shape, (std::vector<int64_t>{400, kHeads * kHeadDim}));
  for (size_t i = 0; i < is->bytes.size(); ++i) ASSERT_EQ(is->bytes[i], was->bytes[i % was->bytes.size()]) << i;
  EXPECT_EQ(Embedding(folder_ / "long", {"--max_seq_length", "160"}), Embedding(Model()));
  const Json both = Convert("both", {"--extend_positions", "400", "--budget_pairs", "0.3"});
  for (const auto& [key, value] : both.items()) EXPECT_TRUE(alone.contains(key)) << key;
  for (const auto& [key, value] : both["frontier"][1].items())
    EXPECT_TRUE(alone["frontier"][1].contains(key) || key == "budget" || key == "setting") << key;
  EXPECT_LT(both["short_texts"]["cosine_worst"].get<double>(), 1 - 1e-9);
  // A converted model keeps its attention and the directions of it, bit for bit.
  Made({"convert", "--model_name_or_path", folder_ / "both", "--output_dir", folder_ / "longer", "--extend_positions",
        "500", "--calibrate", Texts()});
  EXPECT_EQ(Config("longer")["attention"], Config("both")["attention"]);
  EXPECT_EQ(Embedding(folder_ / "longer", {"--max_seq_length", "400"}), Embedding(folder_ / "both"));
  EXPECT_EQ(both["extended_from"], kPositions);
  EXPECT_EQ(Config("both")["max_position_embeddings"], 400);
}

TEST_F(ConvertTest, OtherFamilies) {
  Made({"pretrain", "--model_type", "albert", "--tokenizer_name", *shared_ / "tokenizer", "--config_overrides",
        "hidden_size=32,embedding_size=16,num_hidden_layers=4,num_hidden_groups=2,inner_group_num=2,"
        "num_attention_heads=2,intermediate_size=48,max_position_embeddings=160",
        "--train_file", *shared_ / "corpus.txt", "--output_dir", folder_ / "albert", "--max_steps", "2",
        "--max_seq_length", "64", "--objective", "mlm"});
  const CommandResult albert =
      Call({"convert", "--model_name_or_path", folder_ / "albert", "--output_dir", folder_ / "converted", "--calibrate",
            Texts(), "--attention", "clustered", "--budget_pairs", "0.3", "--quiet", "--json"});
  ASSERT_EQ(albert.status, 0) << albert.err;
  EXPECT_LE(ParseJson(albert.out, "report")["pairs_fraction"].get<double>(), 0.3);
  // Two inner layers a layer: directions for each visit.
  EXPECT_NE(SafetensorsFile(folder_ / "converted/model.safetensors").Find("lshformer.attention.7.key_directions"),
            nullptr);
  Made({"synth", "--task", "qa", "--examples", "6", "--output", folder_ / "questions.json"});
  Made({"train", "--task", "question-answering", "--model_type", "qanet", "--config_overrides",
        "hidden_size=32,num_attention_heads=2,num_hidden_layers=1,embedding_size=16,character_embedding_size=8",
        "--train_file", folder_ / "questions.json", "--output_dir", folder_ / "qanet", "--max_steps", "1"});
  const CommandResult qanet =
      Call({"convert", "--model_name_or_path", folder_ / "qanet", "--output_dir", folder_ / "fast", "--calibrate",
            Texts(), "--budget_pairs", "0.4", "--quiet", "--json"});
  ASSERT_EQ(qanet.status, 0) << qanet.err;
  EXPECT_LE(ParseJson(qanet.out, "report")["pairs_fraction"].get<double>(), 0.4);
  const CommandResult answer =
      Call({"predict", "--task", "question-answering", "--model_name_or_path", folder_ / "fast", "--question",
            "Who hid it?", "--context", "Karla hid the canary behind the old mill.", "--quiet"});
  EXPECT_EQ(answer.status, 0) << answer.err;
  // Heads that differ and stored directions beside the same model under exact attention.
  const auto evaluate = [&](const char* model, const std::string& file, const Words& more) {
    Words words{
        "evaluate", "--model_name_or_path", folder_ / model, "--validation_file", file, "--max_eval_samples", "6",
        "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = Call(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return ParseJson(result.out, "results");
  };
  for (const auto& [exact, own, file] : {std::tuple("albert", "converted", *shared_ / "corpus.txt"),
                                         std::tuple("qanet", "fast", folder_ / "questions.json")}) {
    const Json compared = evaluate(own, file, {"--compare_exact"});
    EXPECT_EQ(compared["eval_loss_exact"], evaluate(exact, file, {})["eval_loss"]) << own;
    EXPECT_GT(compared["eval_cosine_to_exact_mean"].get<double>(), 0.5) << own;
    EXPECT_LE(compared["eval_cosine_to_exact_worst"], compared["eval_cosine_to_exact_mean"]) << own;
  }
}

TEST_F(ConvertTest, WhatIsWrong) {
  const auto wrong = [&](const Words& more, int status) { return Wrong(Command("out", more), status); };
  EXPECT_THAT(wrong({"--budget_pairs", "0.3", "--budget_time", "0.5"}, 2), HasSubstr("--budget_time"));
  EXPECT_THAT(wrong({"--budget_pairs", "1.5"}, 2), HasSubstr("--budget_pairs"));
  EXPECT_THAT(wrong({"--budget_pairs", "0.3", "--lsh_open", "2"}, 2), HasSubstr("--lsh_open: a budget chooses it"));
  EXPECT_THAT(wrong({"--budget_pairs", "0.3", "--attention", "reformer"}, 2), HasSubstr("--attention"));
  EXPECT_THAT(wrong({"--budget_pairs", "0.0001"}, 1), AllOf(HasSubstr("--budget_pairs"), HasSubstr("the least is 0.")));
  EXPECT_THAT(wrong({"--recover_steps", "3"}, 2), HasSubstr("--train_file"));
  EXPECT_THAT(wrong({"--learning_rate", "1e-3"}, 2), HasSubstr("--learning_rate: is of the recovery"));
  EXPECT_THAT(wrong({"--bf16"}, 2), HasSubstr("--bf16: is of the recovery"));
  EXPECT_THAT(wrong({"--extend_positions", "100", "--lsh_open", "1"}, 2), HasSubstr("has 160 positions already"));
  EXPECT_THAT(wrong({"--extend_positions", "500", "--recover_steps", "3", "--train_file", Texts()}, 2),
              HasSubstr("--recover_steps: the attention stays as it is"));
  EXPECT_THAT(wrong({"--task", "fill-mask"}, 2), HasSubstr("--validation_file"));
  const auto on = [&](const std::string& text) {
    return Wrong({"convert", "--model_name_or_path", Model(), "--output_dir", folder_ / "out", "--calibrate",
                  folder_.Write("bad.txt", text), "--quiet"},
                 1);
  };
  EXPECT_THAT(on(""), HasSubstr("bad.txt: holds no text"));
  EXPECT_THAT(on(" \n\n"), HasSubstr("bad.txt: holds no text"));
  EXPECT_THAT(on("too short\n"), HasSubstr("too few to calibrate on"));
  std::string foreign;
  for (int i = 0; i < 60; ++i) foreign += "\xE6\xBC\xA2\xE5\xAD\x97 ";
  EXPECT_THAT(on(foreign + "\n"), HasSubstr("unknown to the model's tokenizer"));
  EXPECT_THAT(wrong({"--max_seq_length", "1"}, 2),
              HasSubstr("--max_seq_length: expected 3 to 160 (max_position_embeddings), got 1"));
  EXPECT_THAT(wrong({"--max_eval_samples", "3"}, 2), HasSubstr("--max_eval_samples: needs data"));
  EXPECT_THAT(Wrong(Command(std::string(300, 'x'), {}), 2), HasSubstr("File name too long"));
  folder_.Write("out/file", "x");
  EXPECT_THAT(wrong({}, 1), HasSubstr("has files already"));
  EXPECT_EQ(folder_.Read("out/file"), "x");
}

TEST_F(ConvertTest, DirectionsGoWithTheirAttention) {
  Convert("out", {"--lsh_open", "1"});
  const CommandResult result = Call({"convert", "--model_name_or_path", folder_ / "out", "--output_dir",
                                     folder_ / "back", "--calibrate", Texts(), "--attention", "dense", "--quiet"});
  ASSERT_EQ(result.status, 0) << result.err;
  const SafetensorsFile before(Model() + "/model.safetensors"), after(folder_ / "back/model.safetensors");
  EXPECT_EQ(after.tensors().size(), before.tensors().size());
  EXPECT_EQ(after.Find("lshformer.attention.0.key_directions"), nullptr);
  // In the order in which the source has them, which need not be that of their names; new ones come behind.
  const auto order = [](const SafetensorsFile& file) {
    std::vector<std::pair<const std::byte*, std::string>> places;
    for (const auto& [name, view] : file.tensors()) places.emplace_back(view.bytes.data(), name);
    std::sort(places.begin(), places.end());
    std::vector<std::string> names;
    for (const auto& [place, name] : places) names.push_back(name);
    return names;
  };
  const std::vector<std::string> names = order(before);
  ASSERT_FALSE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(order(after), names);
  const std::vector<std::string> converted = order(SafetensorsFile(folder_ / "out/model.safetensors"));
  EXPECT_EQ(std::vector<std::string>(converted.begin(), converted.begin() + std::ssize(names)), names);
}

// An object of the command line that says nothing of directions has the folder's.
TEST_F(ConvertTest, DirectionsAreThoseOfTheFolderUnderAnyAttention) {
  Convert("out", {"--lsh_open", "1"});
  const auto answer = [&](const std::string& attention) {
    const CommandResult result = Call({"predict", "--task", "feature-extraction", "--model_name_or_path",
                                       folder_ / "out", "--text_file", Texts(), "--attention", attention, "--quiet"});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const std::string plain = answer(R"({"type": "clustered", "cluster": 8, "open": 1})");
  EXPECT_EQ(plain, answer(R"({"type": "clustered", "cluster": 8, "open": 1, "directions": "stored"})"));
  EXPECT_NE(plain, answer(R"({"type": "clustered", "cluster": 8, "open": 1, "directions": "random"})"));
}

// A name that cannot be one is a mistake in the command; a place that cannot be written to is none.
TEST_F(ConvertTest, PlacesThatCannotBeWrittenTo) {
  const auto wrong = [&](const std::string& output, int status) {
    return Wrong(
        {"convert", "--model_name_or_path", Model(), "--output_dir", output, "--calibrate", Texts(), "--quiet"},
        status);
  };
  folder_.Write("file", "x");
  EXPECT_THAT(wrong(folder_ / "file/out", 2), HasSubstr("--output_dir: "));
  EXPECT_THAT(wrong("/sys/lshformer-converted", 1),
              HasSubstr("--output_dir: /sys/lshformer-converted: cannot be made"));
  EXPECT_THAT(wrong("/sys/lshformer/converted", 1),
              HasSubstr("--output_dir: /sys/lshformer/converted: cannot be made"));
}

TEST_F(ConvertTest, DirectionsThatAreMissingAreNamed) {
  Convert("out", {"--lsh_open", "1"});
  const std::string without = folder_ / "without";
  fs::copy(folder_ / "out", without);
  fs::remove(without + "/model.safetensors");
  fs::copy(Model() + "/model.safetensors", without + "/model.safetensors");
  EXPECT_THAT(Wrong({"predict", "--task", "fill-mask", "--model_name_or_path", without, "--text", "a [MASK]"}, 1),
              AllOf(HasSubstr("\"lshformer.attention.0.key_directions\" is missing"), HasSubstr("convert makes")));
  const Json info = ParseJson(Call({"info", folder_ / "out", "--json"}).out, "info");
  EXPECT_EQ(info["parameters_total"], ParseJson(Call({"info", Model(), "--json"}).out, "info")["parameters_total"]);
}

}  // namespace
}  // namespace lshformer::cli
