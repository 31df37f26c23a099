// A server: models loaded, an address listened on, until a signal.
#pragma once
#include "serve/options.h"

namespace lshformer {

// Loads the models, prints "listening on http://HOST:PORT" on stdout and answers requests until SIGINT or SIGTERM. Then
// what was accepted is finished within stop_timeout, and Interrupted says so. OptionError and Error as
// CheckServeOptions, LoadModel and HttpServer have them.
void RunServe(const ServeOptions& options);

}  // namespace lshformer
