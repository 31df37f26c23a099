#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "cli/program.h"
#include "cli/start.h"

int main(int argc, char** argv) {
  lshformer::cli::TellMainHasBegun();
  const int code = lshformer::cli::RunProgram(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  // Not through the destructors of static objects: libtorch would take its thousands of operators out of their tables
  // one by one, a tenth of the time of a short command.
  std::_Exit(code);
}
