// Makes film reviews, learns a vocabulary and a small classifier from them, and asks it:   train_classifier FOLDER
#include <lshformer/parallel.h>
#include <lshformer/predict.h>
#include <lshformer/synth.h>
#include <lshformer/threads.h>
#include <lshformer/train.h>
#include <lshformer/train_tokenizer.h>

#include <cstdio>
#include <exception>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: train_classifier FOLDER\n"), 2;
  const std::string folder = argv[1], train = folder + "/train.tsv", dev = folder + "/dev.tsv";
  try {
    lshformer::SetAllThreads(lshformer::HardwareThreads());
    // TSV with a header, "sentence" and "label": put your own here.
    lshformer::RunSynth({.task = "classification", .output = train, .examples = 1500, .seed = 1});
    lshformer::RunSynth({.task = "classification", .output = dev, .examples = 200, .seed = 2});
    lshformer::RunTokenizerTrain({.input = {train}, .output_dir = folder + "/tokenizer"});

    lshformer::TrainOptions options;
    options.model.tokenizer_name = folder + "/tokenizer";
    options.model.config_overrides =  // or model_name_or_path: a folder in the Hugging Face layout to start from
        "hidden_size=64,num_hidden_layers=2,num_attention_heads=2,intermediate_size=128,max_position_embeddings=64";
    options.model.attention.attention = "simhash";
    options.train_files = {train};
    options.validation_file = dev;
    options.do_eval = true;
    options.training.learning_rate = 1e-3;
    options.training.per_device_train_batch_size = 16;
    options.folder.output_dir = folder + "/model";
    const lshformer::JobResult result = lshformer::RunTrain(options);
    std::printf("accuracy %.3f\n", result.eval["eval_accuracy"]);

    lshformer::PredictJob ask;
    ask.model_name_or_path = folder + "/model";
    ask.options.task = lshformer::PredictTask::kTextClassification;
    ask.text = "The film is superb.";
    std::fflush(stdout);
    lshformer::RunPredict(ask);  // JSON on stdout, or into a file
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "train_classifier: %s\n", error.what()), 1;
  }
}
