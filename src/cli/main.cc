#include "cli/program.h"
#include "cli/start.h"

int main(int argc, char** argv) {
  lshformer::cli::TellMainHasBegun();
  lshformer::cli::RunProgram(argc, argv);
}
