#include "models/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/files.h"
#include "models/bert/config.h"
#include "models/family.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TempFolder;

ModelConfig Parse(const std::string& text) { return ParseModelConfig(ParseJson(text, "config.json"), "config.json"); }
std::string ParseError(const std::string& text) {
  const std::string message = ErrorOf([&] { Parse(text); }), prefix = "config.json: ";
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}
std::string MemberError(const std::string& member) { return ParseError("{" + member + "}"); }

TEST(ParseModelConfig, MissingKeysTakeHfsDefaults) {
  const ModelConfig config = Parse("{}");
  EXPECT_EQ(config.model_type, "bert");
  EXPECT_EQ(config.vocab_size, 30522);
  EXPECT_EQ(config.hidden_size, 768);
  EXPECT_EQ(config.num_hidden_layers, 12);
  EXPECT_EQ(config.num_attention_heads, 12);
  EXPECT_EQ(config.intermediate_size, 3072);
  EXPECT_EQ(config.hidden_act, Activation::kGelu);
  EXPECT_EQ(config.hidden_dropout_prob, 0.1);
  EXPECT_EQ(config.attention_probs_dropout_prob, 0.1);
  EXPECT_LT(config.own<BertConfig>().classifier_dropout, 0);
  EXPECT_EQ(config.max_position_embeddings, 512);
  EXPECT_EQ(config.type_vocab_size, 2);
  EXPECT_EQ(config.initializer_range, 0.02);
  EXPECT_EQ(config.layer_norm_eps, 1e-12);
  EXPECT_EQ(config.pad_token_id, 0);
  EXPECT_EQ(config.num_labels, 2);
  EXPECT_THAT(config.attention, ElementsAre(AttentionSpec{}));
  EXPECT_EQ(config.head_dim(), 64);
  EXPECT_EQ(config.label_name(1), "LABEL_1");
}

// As version 4 of HF's library writes it, and the BERT-LSH authors' keys.
constexpr const char* kVersion4 = R"({"architectures":["BertForMaskedLM"],"attention_probs_dropout_prob":0.1,"bands":8,
  "classifier_dropout":null,"hidden_act":"gelu","hidden_dropout_prob":0.1,"hidden_size":128,"initializer_range":0.02,
  "intermediate_size":512,"layer_norm_eps":1e-12,"max_position_embeddings":512,"model_type":"bert","num_attention_heads":2,
  "num_hashes":4,"num_hidden_layers":2,"pad_token_id":0,"position_embedding_type":"absolute","table_size":256,
  "torch_dtype":"float32","transformers_version":"4.37.0.dev0","type_vocab_size":2,"use_cache":true,"vocab_size":32000})";
// As version 5 writes it: dtype, no position_embedding_type, no labels where there are two.
constexpr const char* kVersion5 =
    R"({"add_cross_attention":false,"architectures":["BertForSequenceClassification"],"bos_token_id":null,
  "dtype":"float32","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":3,"intermediate_size":100,"is_decoder":false,
  "id2label":{"0":"NEG","1":"NEUTRAL","2":"POS"},"label2id":{"NEG":0,"NEUTRAL":1,"POS":2},"problem_type":"single_label_classification",
  "tie_word_embeddings":true,"vocab_size":1000})";

TEST(ParseModelConfig, BothOfHfsLayouts) {
  const ModelConfig old = Parse(kVersion4);
  EXPECT_THAT(old.architectures, ElementsAre("BertForMaskedLM"));
  EXPECT_EQ(old.vocab_size, 32000);
  EXPECT_EQ(old.head_dim(), 64);
  EXPECT_TRUE(Is<DenseAttention>(old.attention[0])) << "the authors' bands are kept, not obeyed";
  const ModelConfig current = Parse(kVersion5);
  EXPECT_EQ(current.num_labels, 3);
  EXPECT_THAT(current.labels, ElementsAre("NEG", "NEUTRAL", "POS"));
  EXPECT_EQ(current.label_name(2), "POS");
  EXPECT_EQ(current.problem_type, "single_label_classification");
}

TEST(ParseModelConfig, UnknownKeysAreKeptInOrder) {
  const Json written = ToJson(Parse(kVersion4));
  EXPECT_EQ(written["bands"], 8);
  EXPECT_EQ(written["transformers_version"], "4.37.0.dev0");
  std::string order;
  const Json other = Parse(kVersion4).other;
  for (const auto& [key, value] : other.items()) order += key + " ";
  EXPECT_EQ(order, "bands num_hashes position_embedding_type table_size transformers_version use_cache ");
  EXPECT_EQ(Parse(R"({"x":{"deep":[1,{"a":null}]}})").other.dump(), R"({"x":{"deep":[1,{"a":null}]}})");
}

TEST(ToJson, ReadsBackAsTheSame) {
  for (
      const std::string& text :
      {std::string("{}"), std::string(kVersion4), std::string(kVersion5),
       std::string(R"({"num_labels":1,"problem_type":"regression"})"),
       std::string(
           R"({"num_hidden_layers":2,"attention":["dense",{"type":"simhash","bands":4,"seed":9}],"classifier_dropout":0.3})")}) {
    const Json written = ToJson(Parse(text));
    EXPECT_EQ(ToJson(ParseModelConfig(written, "again")), written) << text;
    EXPECT_EQ(written["torch_dtype"], "float32");
    EXPECT_FALSE(written.contains("dtype"));
  }
}

TEST(ParseModelConfig, ReversibleLayersAndPiecesOfTheFeedForward) {
  EXPECT_FALSE(Parse("{}").reversible);
  EXPECT_EQ(Parse("{}").chunk_size_feed_forward, 0);
  const ModelConfig config = Parse(R"({"reversible": true, "chunk_size_feed_forward": 64})");
  EXPECT_TRUE(config.reversible);
  EXPECT_EQ(config.chunk_size_feed_forward, 64);
  EXPECT_EQ(ToJson(config)["reversible"], true);
  EXPECT_EQ(ToJson(config)["chunk_size_feed_forward"], 64);
  // HF writes neither key into an ordinary model's file, nor do we.
  const Json plain = ToJson(Parse(R"({"reversible": false, "chunk_size_feed_forward": 0})"));
  EXPECT_FALSE(plain.contains("reversible"));
  EXPECT_FALSE(plain.contains("chunk_size_feed_forward"));
  EXPECT_EQ(MemberError("\"reversible\": \"yes\""), "\"reversible\": expected true or false, got \"yes\"");
  EXPECT_EQ(MemberError("\"reversible\": 1"), "\"reversible\": expected true or false, got 1");
  EXPECT_THAT(MemberError("\"chunk_size_feed_forward\": -1"),
              HasSubstr("\"chunk_size_feed_forward\": expected 0 to 2147483647, got -1"));
  EXPECT_THAT(MemberError("\"chunk_size_feed_forward\": 1.5"), HasSubstr("got 1.5"));
}

TEST(ToJson, AttentionInFull) {
  EXPECT_EQ(ToJson(Parse(R"({"attention":"dense"})"))["attention"].dump(), R"({"type":"dense","seed":0})");
  EXPECT_EQ(ToJson(Parse(R"({"attention":{"type":"simhash","bands":4}})"))["attention"].dump(),
            R"({"type":"simhash","bands":4,"hashes":1,"table_size":64,"fill":"zero","pairs":"full","window":0,)"
            R"("global":"none","resample":"call","center_keys":false,"min_length":0,"seed":0})");
}

TEST(ParseModelConfig, AttentionPerLayer) {
  const ModelConfig config = Parse(R"({"num_hidden_layers":2,"attention":["dense",{"type":"simhash"}]})");
  EXPECT_TRUE(Is<DenseAttention>(config.layer_attention(0)));
  EXPECT_TRUE(Is<SimHashAttention>(config.layer_attention(1)));
  EXPECT_TRUE(Is<SimHashAttention>(Parse(R"({"attention":"simhash"})").layer_attention(11)));
  EXPECT_EQ(MemberError(R"("num_hidden_layers":3,"attention":["dense","dense"])"),
            "\"attention\": expected one object or 3 (num_hidden_layers), got 2");
  EXPECT_EQ(MemberError(R"("attention":[])"), "\"attention\": the list is empty");
}

TEST(ParseModelConfig, AttentionPerHead) {
  const auto of = [](const std::string& attention) {
    return MemberError(R"("hidden_size":64,"num_hidden_layers":1,"num_attention_heads":2,"attention":)" + attention);
  };
  const std::string wrong = "\"attention\"[0]: expected one object or 2 (num_attention_heads), got ";
  EXPECT_EQ(of(R"([["dense","dense","clustered"]])"), wrong + "3");
  EXPECT_EQ(of(R"([["clustered","clustered","clustered"]])"), wrong + "3") << "alike";
  EXPECT_EQ(of(R"([["clustered"]])"), wrong + "1");
  EXPECT_EQ(of(R"([[["clustered","clustered"],"clustered"]])"),
            "\"attention\"[0]: expected an object for each head, got a list");
  const ModelConfig config = Parse(R"({"hidden_size":64,"num_hidden_layers":1,"num_attention_heads":2,)"
                                   R"("attention":[["clustered","clustered"]]})");
  EXPECT_TRUE(config.layer_attention(0).heads.empty()) << "alike: one for all";
}

TEST(ParseModelConfig, AttentionIsStrict) {
  EXPECT_EQ(MemberError(R"("attention":{"type":"simhash","band":2})"),
            "\"attention\": unknown key \"band\" (did you mean \"bands\"?)");
  EXPECT_EQ(MemberError(R"("attention":{"type":"simhash","bands":0})"),
            "\"attention\": \"bands\": expected 1 to 62, got 0");
  EXPECT_EQ(MemberError(R"("num_hidden_layers":2,"attention":["dense",{"type":"simhash","hashes":0}])"),
            "\"attention\"[1]: \"hashes\": expected 1 to 1024, got 0");
  EXPECT_EQ(MemberError(R"("attention":"linear")"),
            "\"attention\": \"type\": expected \"dense\", \"simhash\", \"reformer\", \"clustered\" or \"local\", got "
            "\"linear\"");
  EXPECT_EQ(MemberError(R"("attention":7)"), "\"attention\": expected a type name or an object, got 7");
}

TEST(ParseModelConfig, Labels) {
  EXPECT_THAT(Parse(R"({"id2label":{"1":"b","0":"a"}})").labels, ElementsAre("a", "b"));
  EXPECT_THAT(Parse(R"({"label2id":{"b":1,"a":"0"}})").labels, ElementsAre("a", "b"));
  EXPECT_EQ(Parse(R"({"num_labels":5})").num_labels, 5);
  EXPECT_EQ(ToJson(Parse(R"({"some_score":NaN})"))["some_score"], nullptr);
  EXPECT_THAT(MemberError(R"("layer_norm_eps":NaN)"), HasSubstr("\"layer_norm_eps\": expected a number, got NaN"));
  // As HF's scripts write them for labels that are no strings.
  EXPECT_THAT(Parse(R"({"id2label":{"0":0,"1":1},"label2id":{"0":0,"1":1}})").labels, ElementsAre("0", "1"));
  EXPECT_THAT(Parse(R"({"id2label":{"0":false,"1":true}})").labels, ElementsAre("false", "true"));
  EXPECT_EQ(ToJson(Parse(R"({"id2label":{"0":0,"1":1}})"))["id2label"], Json::parse(R"({"0":"0","1":"1"})"));
  EXPECT_EQ(Parse(R"({"num_labels":null,"id2label":null})").num_labels, 2);
  std::string many = R"({"id2label":{"0":"0")";
  for (int i = 1; i < 12; ++i) many += fmt::format(R"(,"{}":"{}")", i, i);
  EXPECT_EQ(Parse(many + "}}").label_name(10), "10") << "numbers, not text, are sorted";
  EXPECT_EQ(MemberError(R"("id2label":{"0":"a","2":"c"})"), "\"id2label\": label 1 is missing");
  EXPECT_EQ(MemberError(R"("id2label":{"0":"a","00":"c"})"), "\"id2label\": two labels have number 0");
  EXPECT_EQ(MemberError(R"("id2label":{"zero":"a"})"), "\"id2label\": expected numbers from 0, got \"zero\"");
  EXPECT_EQ(MemberError(R"("id2label":{"99999999999999999999":"a"})"),
            "\"id2label\": expected numbers from 0, got \"99999999999999999999\"");
  EXPECT_EQ(MemberError(R"("id2label":{"0":[]})"), "\"id2label\": expected names, got a list of 0 values");
  EXPECT_EQ(MemberError(R"("id2label":["a","b"])"), "\"id2label\": expected an object, got a list of 2 values");
  EXPECT_EQ(MemberError(R"("label2id":{"a":-1})"), "\"label2id\": expected numbers from 0, got -1");
  EXPECT_EQ(MemberError(R"("label2id":{"a":0,"b":0})"), "\"label2id\": two labels have number 0");
  EXPECT_EQ(MemberError(R"("num_labels":3,"id2label":{"0":"a"})"), "\"num_labels\" is 3, the label map has 1");
  EXPECT_EQ(MemberError(R"("num_labels":0)"), "\"num_labels\": expected 1 to 65536, got 0");
}

TEST(ToJson, LabelsOfOneNameAreKept) {
  const Json json = ToJson(Parse(R"({"id2label":{"0":"a","1":"a","2":"b"}})"));
  EXPECT_EQ(json["id2label"].dump(), R"({"0":"a","1":"a","2":"b"})");
  EXPECT_EQ(json["label2id"].dump(), R"({"a":0,"b":2})");
}

TEST(ParseModelConfig, Activations) {
  for (const auto& [name, activation] :
       {std::pair("gelu", Activation::kGelu), std::pair("gelu_new", Activation::kGeluNew),
        std::pair("gelu_pytorch_tanh", Activation::kGeluNew), std::pair("gelu_fast", Activation::kGeluNew),
        std::pair("gelu_accurate", Activation::kGeluNew), std::pair("gelu_python_tanh", Activation::kGeluNew),
        std::pair("gelu_python", Activation::kGelu), std::pair("relu", Activation::kRelu),
        std::pair("tanh", Activation::kTanh), std::pair("silu", Activation::kSilu),
        std::pair("swish", Activation::kSilu)}) {
    EXPECT_EQ(Parse(fmt::format(R"({{"hidden_act":"{}"}})", name)).hidden_act, activation);
    EXPECT_EQ(ParseActivation(Name(activation), "f"), activation);
  }
  EXPECT_EQ(MemberError(R"("hidden_act":"gleu")"),
            "\"hidden_act\": unknown activation \"gleu\", expected gelu, gelu_python, gelu_new, "
            "gelu_pytorch_tanh, gelu_python_tanh, gelu_fast, gelu_accurate, relu, tanh, silu, swish (did you mean "
            "\"gelu\"?)");
  EXPECT_EQ(MemberError(R"("hidden_act":3)"), "\"hidden_act\": expected a string, got 3");
}

TEST(ParseModelConfig, WrongTypes) {
  EXPECT_EQ(ParseError("[]"), "expected an object, got a list of 0 values");
  EXPECT_EQ(MemberError(R"("hidden_size":"128")"), "\"hidden_size\": expected 1 to 65536, got \"128\"");
  EXPECT_EQ(MemberError(R"("hidden_size":128.5)"), "\"hidden_size\": expected 1 to 65536, got 128.5");
  EXPECT_EQ(MemberError(R"("hidden_size":null)"), "\"hidden_size\": expected 1 to 65536, got null");
  EXPECT_EQ(MemberError(R"("hidden_size":[128])"), "\"hidden_size\": expected 1 to 65536, got a list of 1 value");
  EXPECT_EQ(MemberError(R"("layer_norm_eps":"x")"), "\"layer_norm_eps\": expected a number, got \"x\"");
  EXPECT_EQ(MemberError(R"("architectures":"Bert")"), "\"architectures\": expected a list of names, got \"Bert\"");
  EXPECT_EQ(MemberError(R"("architectures":[1])"), "\"architectures\": expected a list of names, it holds 1");
  EXPECT_EQ(MemberError(R"("model_type":1)"), "\"model_type\": expected a string, got 1");
  EXPECT_EQ(MemberError(R"("torch_dtype":1)"), "\"torch_dtype\": expected a string, got 1");
  EXPECT_EQ(MemberError(R"("pad_token_id":"0")"), "\"pad_token_id\": expected an integer, got \"0\"");
}

TEST(ParseModelConfig, ImpossibleSizes) {
  EXPECT_EQ(MemberError(R"("hidden_size":-128)"), "\"hidden_size\": expected 1 to 65536, got -128");
  EXPECT_EQ(MemberError(R"("hidden_size":0)"), "\"hidden_size\": expected 1 to 65536, got 0");
  EXPECT_EQ(MemberError(R"("num_attention_heads":0)"), "\"num_attention_heads\": expected 1 to 65536, got 0");
  EXPECT_EQ(MemberError(R"("vocab_size":1000000000000)"), "\"vocab_size\": expected 1 to 16777216, got 1000000000000");
  EXPECT_EQ(MemberError(R"("vocab_size":18446744073709551615)"),
            "\"vocab_size\": expected 1 to 16777216, got 18446744073709551615");
  EXPECT_EQ(MemberError(R"("num_hidden_layers":0)"), "\"num_hidden_layers\": expected 1 to 1024, got 0");
  EXPECT_EQ(MemberError(R"("intermediate_size":-1)"), "\"intermediate_size\": expected 1 to 1048576, got -1");
  EXPECT_EQ(MemberError(R"("max_position_embeddings":0)"),
            "\"max_position_embeddings\": expected 1 to 16777216, got 0");
  EXPECT_EQ(MemberError(R"("type_vocab_size":0)"), "\"type_vocab_size\": expected 1 to 65536, got 0");
  EXPECT_EQ(MemberError(R"("pad_token_id":30522)"), "\"pad_token_id\": expected 0 to 30521, got 30522");
  EXPECT_EQ(MemberError(R"("pad_token_id":-1)"), "\"pad_token_id\": expected 0 to 30521, got -1");
  EXPECT_EQ(MemberError(R"("hidden_size":65536,"num_attention_heads":1024,"num_hidden_layers":1024)"),
            "the sizes ask for 1.8e+13 parameters, the limit is 8e+09");
  EXPECT_EQ(MemberError(R"("hidden_size":100,"num_attention_heads":12)"),
            "\"hidden_size\" 100 is not a multiple of \"num_attention_heads\" 12");
  EXPECT_EQ(MemberError(R"("hidden_size":514,"num_attention_heads":2)"),
            "\"hidden_size\" 514 with 2 heads gives heads of 257, the limit is 256");
  EXPECT_EQ(Parse(R"({"hidden_size":512,"num_attention_heads":2})").head_dim(), 256);
}

TEST(ParseModelConfig, NumbersOutOfRange) {
  EXPECT_EQ(MemberError(R"("hidden_dropout_prob":1.0)"),
            "\"hidden_dropout_prob\": expected at least 0 and below 1, got 1");
  EXPECT_EQ(MemberError(R"("attention_probs_dropout_prob":-0.1)"),
            "\"attention_probs_dropout_prob\": expected at least 0 and below 1, got -0.1");
  EXPECT_EQ(MemberError(R"("classifier_dropout":-1)"),
            "\"classifier_dropout\": expected at least 0 and below 1, got -1");
  EXPECT_EQ(MemberError(R"("classifier_dropout":1)"), "\"classifier_dropout\": expected at least 0 and below 1, got 1");
  EXPECT_EQ(MemberError(R"("layer_norm_eps":0)"), "\"layer_norm_eps\": expected above 0 and at most 1, got 0");
  EXPECT_EQ(MemberError(R"("initializer_range":-0.02)"), "\"initializer_range\": expected 0 to 100, got -0.02");
  EXPECT_EQ(Parse(R"({"hidden_dropout_prob":0})").hidden_dropout_prob, 0);
}

TEST(ParseModelConfig, VariantsThatAreNotComputed) {
  EXPECT_EQ(MemberError(R"("model_type":"xlnet")"),
            "\"model_type\": expected \"albert\" or \"bert\" or \"bidaf\" or \"distilbert\" or \"modernbert\" or "
            "\"nomic_bert\" or \"qanet\" or \"roberta\" or \"xlm-roberta\", got \"xlnet\"");
  EXPECT_EQ(MemberError(R"("auto_map":{"AutoModel":"someone/code--modeling_other.OtherBertModel"})"),
            "\"auto_map\": the model is what the code \"someone/code--modeling_other.OtherBertModel\" computes, which "
            "is not known here");
  EXPECT_EQ(MemberError(R"("auto_map":{"AutoModel":["modeling_foo.FooModel",null]})"),
            "\"auto_map\": the model is what the code \"modeling_foo.FooModel\" computes, which is not known here");
  EXPECT_EQ(MemberError(R"("auto_map":{"AutoModelForMaskedLM":1})"),
            "\"auto_map\": \"AutoModelForMaskedLM\": expected the name of a class, got 1");
  EXPECT_EQ(MemberError(R"("auto_map":"modeling_foo.FooModel")"),
            "\"auto_map\": expected an object, got \"modeling_foo.FooModel\"");
  Parse(R"({"auto_map":{"AutoModel":["modeling_bert.BertModel",null],"AutoConfig":"foo.FooConfig"}})");
  EXPECT_EQ(MemberError(R"("position_embedding_type":"relative_key")"),
            "\"position_embedding_type\": expected \"absolute\", got \"relative_key\"");
  // Models without a table of positions do not heed the key: mmBERT's folders have it.
  for (const char* type : {"modernbert", "nomic_bert", "distilbert"})
    Parse(std::string(R"({"position_embedding_type":"sans_pos","vocab_size":51000,"model_type":")") + type + "\"}");
  EXPECT_EQ(MemberError(R"("is_decoder":true)"), "\"is_decoder\": expected false (encoders only), got true");
  EXPECT_EQ(MemberError(R"("add_cross_attention":true)"),
            "\"add_cross_attention\": expected false (encoders only), got true");
  EXPECT_EQ(MemberError(R"("problem_type":"ranking")"),
            "\"problem_type\": expected \"regression\", \"single_label_classification\" or "
            "\"multi_label_classification\", got \"ranking\"");
}

TEST(ReadModelConfig, NamesTheFile) {
  TempFolder folder;
  EXPECT_EQ(ReadModelConfig(folder.Write("config.json", kVersion5)).vocab_size, 1000);
  const std::string text = folder.Write("text", "hello"), deep = folder.Write("deep", std::string(100'000, '['));
  EXPECT_THAT(ErrorOf([&] { ReadModelConfig(text); }), StartsWith(text + ": invalid JSON at column 1: "));
  EXPECT_EQ(ErrorOf([&] { ReadModelConfig(deep); }), deep + ": JSON is nested deeper than 64 levels");
  EXPECT_THAT(ErrorOf([&] { ReadModelConfig(folder / "none"); }), HasSubstr("cannot open: No such file"));
  const std::string bad = folder.Write("bad", "{\"hidden_size\": -1}");
  EXPECT_EQ(ErrorOf([&] { ReadModelConfig(bad); }), bad + ": \"hidden_size\": expected 1 to 65536, got -1");
}

std::string OverrideError(std::string_view overrides) {
  return ErrorOf([&] {
    ModelConfig config;
    ApplyOverrides(config, overrides, "--config_overrides");
  });
}

TEST(ApplyOverrides, SetsKeysOfAllTypes) {
  ModelConfig config;
  ApplyOverrides(config,
                 "hidden_size=128, num_hidden_layers=2,num_attention_heads = 2,hidden_act=gelu_new,layer_norm_eps=1e-5,"
                 "attention={\"type\":\"simhash\",\"bands\":4},classifier_dropout=0.25",
                 "--config_overrides");
  EXPECT_EQ(config.hidden_size, 128);
  EXPECT_EQ(config.num_hidden_layers, 2);
  EXPECT_EQ(config.num_attention_heads, 2);
  EXPECT_EQ(config.hidden_act, Activation::kGeluNew);
  EXPECT_EQ(config.layer_norm_eps, 1e-5);
  EXPECT_EQ(As<SimHashAttention>(config.attention[0]).bands, 4);
  EXPECT_EQ(config.own<BertConfig>().classifier_dropout, 0.25);
  ApplyOverrides(config, "classifier_dropout=None,attention=[\"dense\",\"simhash\"]", "f");
  EXPECT_LT(config.own<BertConfig>().classifier_dropout, 0);
  EXPECT_EQ(config.attention.size(), 2u);
  ApplyOverrides(config, "", "f");
  ApplyOverrides(config, "  ", "f");
  EXPECT_EQ(config.hidden_size, 128);
}

TEST(ApplyOverrides, ReversibleLayers) {
  ModelConfig config;
  ApplyOverrides(config, "reversible=true,chunk_size_feed_forward=128", "--config_overrides");
  EXPECT_TRUE(config.reversible);
  EXPECT_EQ(config.chunk_size_feed_forward, 128);
  ApplyOverrides(config, "reversible=False", "--config_overrides");
  EXPECT_FALSE(config.reversible);
  EXPECT_THAT(ErrorOf([&] { ApplyOverrides(config, "reversible=maybe", "--config_overrides"); }),
              HasSubstr("\"reversible\": expected true or false, got \"maybe\""));
  EXPECT_THAT(ErrorOf([&] { ApplyOverrides(config, "reversibel=true", "--config_overrides"); }),
              HasSubstr("did you mean \"reversible\"?"));
}

TEST(ApplyOverrides, LabelsFollow) {
  ModelConfig config = Parse(kVersion5);
  ApplyOverrides(config, "num_labels=5", "f");
  EXPECT_EQ(config.num_labels, 5);
  EXPECT_EQ(config.label_name(0), "LABEL_0");
  ApplyOverrides(config, R"(id2label={"0":"a, b","1":"c"})", "f");
  EXPECT_THAT(config.labels, ElementsAre("a, b", "c"));
}

TEST(ApplyOverrides, SaysWhatIsWrong) {
  EXPECT_EQ(OverrideError("hiden_size=128"),
            "--config_overrides: unknown key \"hiden_size\" (did you mean \"hidden_size\"?)");
  EXPECT_EQ(OverrideError("hidden_size"), "--config_overrides: expected key=value, got \"hidden_size\"");
  EXPECT_EQ(OverrideError("hidden_size=128,"), "--config_overrides: expected key=value, got \"\"");
  EXPECT_EQ(OverrideError("hidden_size=big"), "--config_overrides: \"hidden_size\": expected 1 to 65536, got \"big\"");
  EXPECT_EQ(OverrideError("hidden_size=100"),
            "--config_overrides: \"hidden_size\" 100 is not a multiple of \"num_attention_heads\" 12");
  EXPECT_EQ(OverrideError("hidden_size="), "--config_overrides: \"hidden_size\": expected 1 to 65536, got \"\"");
  EXPECT_THAT(OverrideError("attention={\"type\":\"simhash\""),
              StartsWith("--config_overrides: invalid JSON at column "));
  ModelConfig config;
  EXPECT_THROW(ApplyOverrides(config, "hidden_size=-1", "f"), UsageError);
  EXPECT_EQ(config.hidden_size, 768) << "a refused override changes nothing";
}

// docs/formats.md has a line for every key, with what its row says.
// The first family's keys in a table, what other families have beside it or default to after it.
TEST(ModelConfigTest, EveryKeyIsDocumented) {
  const std::string page = ReadFile(std::string(LSHFORMER_SOURCE_DIR) + "/docs/formats.md");
  const OptionTable<ModelConfig> first = ConfigTable(*Families().front());
  for (const Family* family : Families()) {
    const OptionTable<ModelConfig> table = ConfigTable(*family);
    for (const Option<ModelConfig>& option : table.options) {
      const Json value = option.write(table.defaults);
      const bool has_type = value.is_object() && value.contains("type");
      const std::string shown = value.is_null() ? "—" : has_type ? value["type"].dump() : value.dump();
      const Option<ModelConfig>* known = FindOption(first, option.name);
      std::string line = fmt::format("| `{}` | {} | {}{}{} |\n", option.name, shown, option.range,
                                     option.range.empty() ? "" : ": ", option.help);
      if (family != Families().front() && known != nullptr) {
        if (option.name == "model_type" || value == known->write(first.defaults)) continue;
        line = fmt::format("`{}` {}", option.name, shown);
      }
      EXPECT_TRUE(page.find(line) != page.npos) << line;
    }
  }
}

}  // namespace
}  // namespace lshformer
