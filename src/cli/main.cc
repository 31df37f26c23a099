#include "cli/program.h"

int main(int argc, char** argv) { return lshformer::cli::RunProgram(argc, argv); }
