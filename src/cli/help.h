// How --help looks: flags in groups, what each takes, what it does, its range and default; common flags last.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace lshformer::cli {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_footer(const CLI::App* app) const override;
};

}  // namespace lshformer::cli
