#include "cli/start.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <new>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/signals.h"
#include "base/temporaries.h"
#include "cli/report_error.h"

namespace lshformer::cli {
namespace {

std::atomic<bool> in_main{false};
constinit std::optional<StopAtOnce> loading;  // until main

// Nothing here may need memory.
[[noreturn]] void EndWithoutMemory() {
  const std::string_view line =
      in_main ? "lshformer: out of memory\n"
              : "lshformer: not enough memory or address space to load the program's libraries (see ulimit -v)\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  RemoveTemporaries();
  _exit(kFailure);
}

[[noreturn]] void EndUncaught() {
  const std::exception_ptr error = std::current_exception();
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    EndWithoutMemory();
  } catch (...) {
  }
  const int status = ReportError(error ? error : std::make_exception_ptr(Error("ended by an error inside a library")));
  RemoveTemporaries();
  _exit(status);
}

void Prepare(int, char**, char**) {
  std::set_terminate(EndUncaught);
  loading.emplace("loading");
  InstallSignalHandlers();
}

// The loader calls what stands in this section of a program before any library's constructors.
__attribute__((section(".preinit_array"), used)) void (*const prepare)(int, char**, char**) = Prepare;

}  // namespace

void TellMainHasBegun() {
  in_main = true;
  loading.reset();
}

// Not a name of ours: the system library's, so that libraries find this one first.
extern "C" void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  auto* const mapping = reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
  if (mapping == MAP_FAILED && errno == ENOMEM && (flags & MAP_ANONYMOUS) != 0) EndWithoutMemory();
  return mapping;
}

}  // namespace lshformer::cli
