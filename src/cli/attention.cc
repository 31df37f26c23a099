// lshformer attention: the operator alone, on tensors of any framework.
#include "jobs/attention.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/writing.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "data/file_kind.h"

namespace lshformer::cli {
namespace {

struct AttentionCommandFlags {
  std::string input, output;
  bool reference = false;
  AttentionChanges attention;
};

void Run(const AttentionCommandFlags& flags) {
  RefuseInputAsOutput("input", flags.input, flags.output);
  RefuseOtherKind(flags.output, {"safetensors"}, "tensors (.safetensors)");
  std::vector<AttentionSpec> specs(1);
  flags.attention.Apply(specs);
  const AttentionInput in = ReadAttentionInput(flags.input, specs[0]);
  const auto run = flags.reference ? RunReferenceAttention : RunAttention;
  WriteAttentionOutput(flags.output, in, specs[0], run(in, specs[0]));
}

}  // namespace

void AddAttention(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("attention", "the attention operator alone, on tensors from any framework");
  auto flags = std::make_shared<AttentionCommandFlags>();
  const char* group = "Input and output";
  command
      ->add_option(
          "--input", flags->input,
          "safetensors: query, key (not for reformer), value [tokens, heads, head_dim], optional cu_seqlens, "
          "grad_output, planes with coefficients, rotations, key_directions or query_directions, or ready buckets: "
          "query_buckets and key_buckets, or query_groups and key_clusters")
      ->required()
      ->type_name("FILE")
      ->group(group);
  command->add_option("--output", flags->output, "safetensors: output, lse, buckets, gradients; counts in its metadata")
      ->required()
      ->type_name("FILE")
      ->group(group);
  command->add_flag("--reference", flags->reference, "the readable double-precision oracle instead of the fast kernels")
      ->group(group);
  AddAttentionFlags(*command, flags->attention);
  command->callback([flags] { Run(*flags); });
}

}  // namespace lshformer::cli
