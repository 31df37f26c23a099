# Writes OUTPUT, the source of BuiltFrom() (cli/built_from.h), with the commit of the checkout SOURCE.
find_program(GIT git)
set(commit "")
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -c safe.directory=* -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "cli/built_from.h"

namespace lshformer::cli {

const char* BuiltFrom() { return "@commit@"; }

}  // namespace lshformer::cli
]])
