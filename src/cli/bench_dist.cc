// lshformer bench dist: what several processes cost.
#include "cli/bench_dist.h"

#include <iostream>
#include <memory>

#include "bench/dist.h"
#include "cli/flags.h"
#include "models/family.h"

namespace lshformer::cli {

void AddBenchDist(CLI::App& bench, CommonFlags& common) {
  CLI::App* command = bench.add_subcommand(
      "dist", "messages between the processes that a launcher started, and a masked-LM step of theirs by its parts");
  auto options = std::make_shared<BenchDistOptions>();
  const char* group = "What is timed";
  command->add_option("--model_type", options->model_type, "the model")->check(OneOf(ModelTypes()))->group(group);
  command
      ->add_option("--config_name", options->config_name, "its config.json or a folder that has one; default BERT base")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--config_overrides", options->config_overrides, "changes to it")
      ->type_name("KEY=VALUE,…")
      ->group(group);
  command->add_option("--sizes", options->sizes, "bytes that each process has for the others")
      ->delimiter(',')
      ->check(IntegerIn(4, int64_t{1} << 32))
      ->group(group);
  command->add_option("--length", options->length, "tokens a sequence")->check(IntegerIn(1, INT32_MAX))->group(group);
  command->add_option("--total_batch_size", options->total_batch_size, "sequences a step, over all processes")
      ->check(IntegerIn(1, 1 << 24))
      ->group(group);
  command
      ->add_option("--per_device_train_batch_size", options->per_device_train_batch_size, "the most sequences at once")
      ->check(IntegerIn(1, 1 << 20))
      ->group(group);
  command->add_option("--gradient_shards", options->gradient_shards, "parts of a step")
      ->check(IntegerIn(1, 1 << 16))
      ->group(group);
  command->add_flag("--shard_optimizer", options->shard_optimizer, "as pretrain and train do with this flag")
      ->group(group);
  command->add_option("--runs", options->runs, "of which the median is told")
      ->check(IntegerIn(1, 100000))
      ->group(group);
  AddTableFlags(*command, MeetingTable(), options->meeting);
  command->callback([options, &common] {
    options->seed = common.seed;
    options->meeting.join = true;
    const Json result = RunBenchDist(*options);
    if (!result.is_null()) std::cout << result.dump(2) << "\n";
  });
}

}  // namespace lshformer::cli
