// Search and its judgement: what is found, and an index that is used, extended, resumed and refused.
#include "jobs/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "eval/ranking.h"
#include "infer/late_chunks.h"
#include "io/passage_index.h"
#include "jobs/search/retrieval.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr const char* kSearchWords = "the of and to in a is that it was for on are as with his they at be this";

// A small model with random weights, and a corpus of documents of its words, of which some are longer than it reads.
class SearchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SaveModelOf("model", 1);
    WriteCorpus(40);
  }

  void SaveModelOf(const std::string& name, uint64_t seed) const {
    ModelConfig config;
    config.hidden_size = 32;
    config.num_hidden_layers = 1;
    config.num_attention_heads = 2;
    config.intermediate_size = 64;
    config.max_position_embeddings = 16;
    config.initializer_range = 0.5;
    config.vocab_size = 0;
    std::string vocabulary;
    std::istringstream words(std::string("[PAD] [UNK] [CLS] [SEP] [MASK] ") + kSearchWords);
    for (std::string word; words >> word; ++config.vocab_size) vocabulary += word + "\n";
    folder_.Write(name + "/vocab.txt", vocabulary);
    SaveModel(*CreateModel(config, Task::kEncoder, seed), folder_ / name);
  }

  static std::string Line(int number) {
    std::vector<std::string> words;
    std::istringstream all(kSearchWords);
    for (std::string word; all >> word;) words.push_back(word);
    std::string text;
    for (int i = 0; i < 3 + number % 30; ++i)
      text += (i > 0 ? " " : "") + words[(number * 7 + i * (number % 5 + 1)) % 20];
    const Json object{{"_id", "d" + std::to_string(number)},
                      {"title", number % 4 == 0 ? "it was" : ""},
                      {"text", number == 6 ? "" : text}};
    return object.dump() + "\n";
  }
  void WriteCorpus(int documents, int changed = -1) const {
    std::string lines;
    for (int i = 0; i < documents; ++i) lines += i == changed ? Line(i + 1000) : Line(i);
    folder_.Write("corpus.jsonl", lines);
  }

  SearchJob Job() const {
    SearchJob job;
    job.model.model_name_or_path = folder_ / "model";
    job.corpus = folder_ / "corpus.jsonl";
    job.index = folder_ / "vectors";
    job.query = "they are in this";
    return job;
  }
  static SearchAnswer Search(const SearchJob& job) {
    SearchAnswer found;
    RunSearch(job, [&](const SearchAnswer& answer) { found = answer; });
    return found;
  }
  std::string Index() const { return folder_.Read("vectors"); }

  TempFolder folder_;
};

TEST_F(SearchTest, FindsThePassagesOfTheLargestCosines) {
  SearchJob job = Job();
  job.top_k = 1000;
  const SearchAnswer all = Search(job);
  const PassageIndex index(job.index);
  ASSERT_EQ(static_cast<int64_t>(all.results.size()), index.rows());
  EXPECT_GT(index.rows(), 40);  // some documents are longer than the model reads
  EXPECT_TRUE(std::is_sorted(all.results.begin(), all.results.end(),
                             [](const FoundPassage& a, const FoundPassage& b) { return a.score > b.score; }));
  PredictOptions options;
  options.task = PredictTask::kFeatureExtraction;
  options.embedding = {Pooling::kMean, true};
  const Pipeline pipeline = Pipeline::Load(folder_ / "model", "", options);
  const std::vector<TextInput> query{{job.query}};
  const std::vector<float> wanted = pipeline.Embed(query).front().value.values;
  for (const FoundPassage& found : all.results) {
    const bool beginning = found.start == 0 && !found.title.empty();
    const std::vector<TextInput> text{{beginning ? found.title + " " + found.text : found.text}};
    const std::vector<float> vector = pipeline.Embed(text).front().value.values;
    double cosine = 0;
    for (size_t i = 0; i < vector.size(); ++i) cosine += double{wanted[i]} * vector[i];
    EXPECT_NEAR(found.score, cosine, 1e-5) << found.text;
  }
  job.top_k = 3;
  const SearchAnswer best = Search(job);
  ASSERT_EQ(best.results.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(best.results[i].text, all.results[i].text);
}

TEST_F(SearchTest, PassagesTileTheirDocuments) {
  SearchJob job = Job();
  job.top_k = 1000;
  job.passages.chunk_tokens = 5;
  std::map<std::string, std::map<int32_t, FoundPassage>> passages;
  for (const FoundPassage& found : Search(job).results) passages[found.id].emplace(found.start, found);
  EXPECT_EQ(passages.size(), 39U);  // one has no text and no title
  for (const auto& [id, parts] : passages) {
    const Json line = ParseJson(Line(std::stoi(id.substr(1))), "test");
    std::string text;
    for (const auto& [start, part] : parts) {
      EXPECT_EQ(part.text, line["text"].get<std::string>().substr(static_cast<size_t>(start), part.text.size()));
      text += (text.empty() || part.text.empty() ? "" : " ") + part.text;
    }
    EXPECT_EQ(text, line["text"]);
  }
}

TEST_F(SearchTest, AnIndexIsUsedAndExtended) {
  WriteCorpus(40);
  Search(Job());
  const std::string whole = Index();
  std::filesystem::remove(folder_ / "vectors");
  WriteCorpus(25);
  Search(Job());
  const auto made = std::filesystem::last_write_time(folder_ / "vectors");
  Search(Job());
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / "vectors"), made) << "nothing is to be done";
  WriteCorpus(40);
  Search(Job());
  EXPECT_EQ(Index(), whole) << "as if it had been made in one go";
}

TEST_F(SearchTest, AnIndexGoesOnAfterAKill) {
  Search(Job());
  const std::string whole = Index();
  const PassageIndex index(folder_ / "vectors");
  IndexFront front = index.front();
  front.complete = Json();
  std::filesystem::remove(folder_ / "begun");
  PassageWriter(folder_ / "begun", front, 0).Flush();
  const std::string begun = folder_.Read("begun");
  // Anywhere in a row, between rows of one document, before the first.
  for (const int64_t bytes : {index.bytes_of(0), index.bytes_of(1), index.bytes_of(17) + 11, index.bytes_of(30)}) {
    std::string killed = whole.substr(0, static_cast<size_t>(bytes));
    killed.replace(0, begun.size(), begun);
    folder_.Write("vectors", killed);
    Search(Job());
    EXPECT_EQ(Index(), whole) << "killed after " << bytes << " bytes";
  }
}

TEST_F(SearchTest, AnIndexOfAnotherModelSettingOrCorpusIsRefused) {
  Search(Job());
  const std::string whole = Index();
  const auto error = [&](const SearchJob& job) { return ErrorOf([&] { Search(job); }); };
  SearchJob job = Job();
  SaveModelOf("other", 2);
  job.model.model_name_or_path = folder_ / "other";
  EXPECT_THAT(error(job), HasSubstr("was made by another model"));
  job = Job();
  job.passages.pooling = "cls";
  EXPECT_THAT(error(job), HasSubstr("pooling \"\", not \"cls\""));
  job = Job();
  job.passages.chunk_tokens = 12;
  EXPECT_THAT(error(job), HasSubstr("chunk_tokens 14, not 12"));
  job = Job();
  job.passages.prompts = R"({"corpus": "the "})";
  EXPECT_THAT(error(job), HasSubstr("was made with"));
  WriteCorpus(40, /*changed=*/12);
  EXPECT_THAT(error(Job()), HasSubstr("another document than"));
  EXPECT_THAT(error(Job()), HasSubstr("corpus.jsonl:13"));
  WriteCorpus(30);
  EXPECT_THAT(error(Job()), HasSubstr("lacks"));
  folder_.Write("corpus.jsonl", Line(0) + Line(1) + Line(0));
  job = Job();
  job.index = folder_ / "new";
  EXPECT_THAT(error(job), EndsWith(":3: id \"d0\" for the second time"));
  folder_.Write("corpus.jsonl", "\n");
  EXPECT_THAT(error(job), HasSubstr("has no documents with text"));
  EXPECT_EQ(Index(), whole);
}

TEST_F(SearchTest, OptionsAreChecked) {
  const auto error = [&](const auto& change) {
    SearchJob job = Job();
    change(job);
    return ErrorOf([&] { Search(job); });
  };
  EXPECT_THAT(error([](SearchJob& job) { job.query = ""; }), HasSubstr("query"));
  EXPECT_THAT(error([](SearchJob& job) { job.query = " "; }), HasSubstr("query: is blank"));
  EXPECT_THAT(error([](SearchJob& job) { job.passages.chunk_tokens = 15; }), HasSubstr("expected at most 14"));
  EXPECT_THAT(error([](SearchJob& job) { job.passages.prompts = "{\"qeury\": \"x\"}"; }), HasSubstr("did you mean"));
  EXPECT_THAT(error([](SearchJob& job) { job.passages.prompts = "[]"; }), HasSubstr("prompts: expected a JSON object"));
}

// A changed prompt leaves passages another room, an index is no output, and a file that is no index is told as one.
TEST_F(SearchTest, AnIndexThatDoesNotFitIsToldByItsReason) {
  Search(Job());
  const std::string whole = Index();
  const auto error = [&](const SearchJob& job) { return ErrorOf([&] { Search(job); }); };
  SearchJob job = Job();
  job.passages.prompts = R"({"corpus": "the of "})";
  EXPECT_THAT(error(job), HasSubstr("with prompts \"\", not \"the of \""));
  job = Job();
  job.passages.long_text = LongText::kWhole;
  EXPECT_THAT(error(job), HasSubstr("with long_text null, not \"whole\""));
  job = Job();
  job.index = job.corpus;
  EXPECT_THAT(error(job), HasSubstr("index: "));
  EXPECT_THAT(error(job), HasSubstr("is the file of corpus too"));
  job = Job();
  job.index = folder_ / "missing/vectors";
  EXPECT_THAT(error(job), HasSubstr("index: " + job.index + ": there is no folder "));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "missing"));
  folder_.Write("vectors", "{}");
  EXPECT_THAT(error(Job()), HasSubstr("vectors: is no index of passages"));
  std::string damaged = whole;
  const float infinite = std::numeric_limits<float>::infinity();
  damaged.replace(damaged.size() - sizeof(infinite), sizeof(infinite), reinterpret_cast<const char*>(&infinite),
                  sizeof(infinite));
  folder_.Write("vectors", damaged);
  EXPECT_THAT(error(Job()), HasSubstr("vectors: is damaged at passage"));
}

TEST_F(SearchTest, QueriesOfAFileAreAnsweredAsOneByOne) {
  const std::vector<std::string> queries{"they are in this", "was it", "of the the of"};
  std::vector<SearchAnswer> wanted;
  for (const std::string& query : queries) {
    SearchJob job = Job();
    job.query = query;
    wanted.push_back(Search(job));
  }
  const auto answers = [&](const std::string& lines) {
    SearchJob job = Job();
    job.query.clear();
    job.query_file = folder_.Write("asked.txt", lines);
    std::vector<SearchAnswer> found;
    RunSearch(job, [&](const SearchAnswer& answer) { found.push_back(answer); });
    return found;
  };
  const auto expect_same = [&](const std::vector<SearchAnswer>& found, const Json& ids) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) {
      Json as_wanted = ToJson(wanted[i]), as_found = ToJson(found[i]);
      EXPECT_EQ(as_found.value("id", Json()), ids[i]);
      as_found.erase("id");
      EXPECT_EQ(as_found.dump(), as_wanted.dump());
    }
  };
  for (const char* none : {"", "\n \n"})
    EXPECT_THAT(ErrorOf([&] { answers(none); }), EndsWith("asked.txt: has no queries"));
  expect_same(answers(queries[0] + "\n\n" + queries[1] + "\r\n" + queries[2]), {nullptr, nullptr, nullptr});
  std::string lines;  // whatever the file is called
  for (size_t i = 0; i < queries.size(); ++i)
    lines +=
        (i == 1 ? Json{{"text", queries[i]}} : Json{{"_id", "q" + std::to_string(i)}, {"text", queries[i]}}).dump() +
        "\n";
  expect_same(answers(lines), {"q0", nullptr, "q2"});
  EXPECT_THAT(ErrorOf([&] { answers("{\"text\": \"was\"}\nwas it\n"); }), HasSubstr("asked.txt:2: "));
  EXPECT_THAT(ErrorOf([&] { answers("{\"text\": \" \"}\n"); }), EndsWith("asked.txt:1: \"text\" is empty"));
  EXPECT_THAT(ErrorOf([&] { answers("was\n\xFF\n"); }), EndsWith("asked.txt:2: expected UTF-8"));
}

// Documents read whole: passages are late chunks of them, and all that holds of an index holds of theirs.
class WholeSearchTest : public SearchTest {
 protected:
  SearchJob WholeJob(const std::string& chunking) const {
    SearchJob job = Job();
    job.top_k = 1000;
    job.passages.long_text = LongText::kWhole;
    job.passages.chunking = chunking;
    if (chunking == "tokens") job.passages.chunk_tokens = 5;
    return job;
  }
  // The chunks of a document of title and text by themselves.
  std::vector<ChunkVector> ChunksOf(const std::string& text, const ChunkOptions& chunks,
                                    const std::vector<CodePointSpan>& spans = {},
                                    const std::string& prompt = "") const {
    PredictOptions options;
    options.task = PredictTask::kFeatureExtraction;
    options.long_text = LongText::kWhole;
    options.chunks = chunks;
    options.embedding = {Pooling::kMean, true};
    options.embedding.prompt = prompt;
    const Pipeline pipeline = Pipeline::Load(folder_ / "model", "", options);
    const Outcome<ChunkQuery> query =
        PrepareChunks(pipeline, text, options.embedding, pipeline.options().chunks, spans);
    EXPECT_EQ(query.error, "");
    return RunChunks(pipeline, {&query.value, 1}).front().value;
  }
  std::map<std::pair<int64_t, int32_t>, std::vector<float>> Rows() const {
    const PassageIndex index(folder_ / "vectors");
    std::map<std::pair<int64_t, int32_t>, std::vector<float>> rows;
    for (int64_t row = 0; row < index.rows(); ++row) {
      const float* vector = index.vectors() + row * index.stride();
      rows[{index.passage(row).document, index.passage(row).start}] = {vector, vector + index.front().columns};
    }
    return rows;
  }
};

TEST_F(WholeSearchTest, PassagesAreLateChunks) {
  EXPECT_FALSE(Search(WholeJob("tokens")).results.empty());
  const auto rows = Rows();
  size_t count = 0;
  for (int number = 0; number < 40; ++number) {
    const Json line = ParseJson(Line(number), "test");
    const std::string title = line["title"], text = line["text"];
    if (title.empty() && text.empty()) continue;
    const int32_t before = title.empty() ? 0 : static_cast<int32_t>(title.size()) + 1;
    for (const ChunkVector& chunk : ChunksOf(title.empty() ? text : title + " " + text, {Chunking::kTokens, 5})) {
      ++count;
      const auto row = rows.find({number, std::max(0, chunk.place.first - before)});
      ASSERT_NE(row, rows.end());
      EXPECT_EQ(row->second, chunk.values);
    }
  }
  EXPECT_EQ(rows.size(), count);
}

TEST_F(WholeSearchTest, SpansAreOfTheText) {
  const std::string text = "the of and to in a is that it was for on are as with";
  folder_.Write("corpus.jsonl",
                Json{{"_id", "d"}, {"title", "it was"}, {"text", text}, {"spans", {{4, 14}, {20, 30}}}}.dump() + "\n");
  const SearchAnswer answer = Search(WholeJob("spans"));
  ASSERT_EQ(answer.results.size(), 2U);
  for (const FoundPassage& found : answer.results)
    EXPECT_EQ(found.text, text.substr(static_cast<size_t>(found.start), static_cast<size_t>(found.end - found.start)));
  const auto rows = Rows();
  for (const ChunkVector& chunk : ChunksOf(text, {Chunking::kSpans}, {{4, 14}, {20, 30}}, /*prompt=*/"it was "))
    EXPECT_EQ(rows.at({0, chunk.place.first}), chunk.values);
  const auto error = [&](const std::string& line) {
    folder_.Write("corpus.jsonl", line + "\n");
    SearchJob job = WholeJob("spans");
    job.index = folder_ / "other";
    return ErrorOf([&] { Search(job); });
  };
  EXPECT_THAT(error(R"({"_id": "d", "text": "it was"})"), EndsWith("corpus.jsonl:1: \"spans\" is missing"));
  EXPECT_THAT(error(R"({"_id": "d", "text": "it was", "spans": [[0, 7]]})"),
              EndsWith("corpus.jsonl:1: \"spans\"[0]: [0, 7] is not inside the text, of 6 code points"));
}

TEST_F(WholeSearchTest, AnIndexGrowsAndGoesOn) {
  for (const char* chunking : {"tokens", "sentences"}) {
    WriteCorpus(40);
    Search(WholeJob(chunking));
    const std::string whole = Index();
    std::filesystem::remove(folder_ / "vectors");
    WriteCorpus(25);
    Search(WholeJob(chunking));
    WriteCorpus(40);
    Search(WholeJob(chunking));
    EXPECT_EQ(Index(), whole) << chunking;
    std::filesystem::remove(folder_ / "vectors");
  }
}

TEST_F(WholeSearchTest, OptionsThatDoNotGoTogetherAreRefused) {
  const auto error = [&](const auto& change) {
    SearchJob job = WholeJob("tokens");
    change(job.passages);
    return ErrorOf([&] { Search(job); });
  };
  EXPECT_THAT(error([](PassageOptions& options) { options.chunking = "none"; }), HasSubstr("chunking: none reads"));
  EXPECT_THAT(error([](PassageOptions& options) { options.pooling = "cls"; }), HasSubstr("pooling: a chunk's vector"));
  EXPECT_THAT(error([](PassageOptions& options) { options.long_text = LongText::kCut; }),
              HasSubstr("long_text: expected windows or whole"));
  EXPECT_THAT(error([](PassageOptions& options) {
                options.long_text = LongText::kWindows;
                options.chunking = "sentences";
              }),
              HasSubstr("chunking: sentences needs long_text whole"));
}

// Against the figures of the ranking that a search over all passages gives, by the best of each document.
TEST_F(SearchTest, RetrievalIsJudgedByTheBestPassage) {
  RetrievalJob job;
  job.model.model_name_or_path = folder_ / "model";
  job.corpus = folder_ / "corpus.jsonl";
  job.output_dir = folder_ / "out";
  job.queries =
      folder_.Write("queries.jsonl",
                    "{\"_id\": \"q\", \"text\": \"they are in this\"}\n{\"_id\": \"d3\", \"text\": \"was it\"}\n"
                    "{\"_id\": \"nobody\", \"text\": \"asks\"}\n");
  job.qrels = folder_.Write("qrels.tsv", "query-id\tcorpus-id\tscore\nq\td5\t2\nq\td9\t1\nd3\td3\t1\nd3\td8\t1\n");
  const Figures figures = RunRetrieval(job);
  EXPECT_EQ(figures["eval_samples"], 2);
  EXPECT_EQ(figures["eval_documents"], 40);
  const std::vector<std::pair<std::string, Relevances>> judged{{"they are in this", {{"d5", 2}, {"d9", 1}}},
                                                               {"was it", {{"d3", 1}, {"d8", 1}}}};
  double ndcg = 0, mrr = 0, recall = 0;
  for (const auto& [query, relevances] : judged) {
    SearchJob search = Job();
    search.query = query;
    search.top_k = 1000;
    std::vector<RankedDocument> ranking;
    std::set<std::string> seen;
    if (query == "was it") seen.insert("d3");  // the query's own id
    for (const FoundPassage& found : Search(search).results)
      if (seen.insert(found.id).second) ranking.push_back({found.id, found.score});
    SortRanking(ranking);
    ndcg += NdcgAt(10, ranking, relevances) / 2;
    mrr += MrrAt(10, ranking, relevances) / 2;
    recall += RecallAt(100, ranking, relevances) / 2;
  }
  EXPECT_NEAR(figures["ndcg_at_10"], ndcg, 1e-12);
  EXPECT_NEAR(figures["mrr_at_10"], mrr, 1e-12);
  EXPECT_NEAR(figures["recall_at_100"], recall, 1e-12);
  EXPECT_EQ(ReadJsonFile(folder_ / "out/eval_results.json")["ndcg_at_10"], figures["ndcg_at_10"]);
  EXPECT_THAT(folder_.Read("out/ranking.tsv"), HasSubstr("q\td5\t"));
  folder_.Write("qrels.tsv", "q\tgone\t1\n");
  EXPECT_THAT(ErrorOf([&] { RunRetrieval(job); }), EndsWith("qrels.tsv:1: document \"gone\" is not in the corpus"));
}

}  // namespace
}  // namespace lshformer
