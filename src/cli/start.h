// What both programs do before their libraries set themselves up (libtorch's take a third of a second, and with little
// memory fail in their own ways), from the first function that the loader calls:
//
// - SIGINT and SIGTERM end the program at once, with one line and status 128 + signal.
// - An exception that nobody catches, before main or in any thread, is one line and status 1, not std::terminate's
// abort.
// - So is memory that OpenBLAS asks for and does not get: it asks again for ever, when it is loaded and later. Its only
//   door is mmap(2), which these programs therefore define themselves; other callers of it see the system's.
//
// What the loader itself cannot do (a library that is missing, no room to map one) happens earlier still; of
// lshformer-models, lshformer finds it out before it goes on there (without_models.cc).
#pragma once

namespace lshformer::cli {

void TellMainHasBegun();

}  // namespace lshformer::cli
