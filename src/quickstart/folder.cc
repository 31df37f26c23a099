#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "quickstart/quickstart.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

// The marker is what tells our output from a folder of the user's.
constexpr const char* kMarker = ".lshformer-quickstart";
constexpr const char* kWork = ".partial";

bool IsOurs(const fs::path& folder) {
  if (fs::exists(folder / kMarker)) return true;
  // A run that was killed in its first minutes leaves its work alone.
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != kWork && entry.path().filename() != kLockFile) return false;
  }
  return true;
}

double ResidentMegabytes() {
  // statm: sizes in pages; the second is the resident set.
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long size = 0, resident = 0;
  const bool read = std::fscanf(file, "%ld %ld", &size, &resident) == 2;
  std::fclose(file);
  return read ? static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6 : 0;
}

}  // namespace

QuickstartFolder::QuickstartFolder(const std::string& path) : path_(path), lock_(path, Marked("output_dir")) {
  if (!IsEmptyButForLock(path) && !IsOurs(path)) {
    Fail("{}: {} is not empty and was not made by quickstart; choose another folder", OptionName{"output_dir"},
         Shown(path, 120));
  }
  work_ = (fs::path(path) / kWork).string();
  std::error_code ignored;
  fs::remove_all(work_, ignored);
  MakeFolder(work_);
}

QuickstartFolder::~QuickstartFolder() {
  std::error_code ignored;
  fs::remove_all(work_, ignored);
}

std::string QuickstartFolder::Work(const std::string& name) const { return (fs::path(work_) / name).string(); }

std::string QuickstartFolder::Final(const std::string& name) const {
  return (fs::path(path_) / name).lexically_normal().string();
}

void QuickstartFolder::Publish() {
  try {
    WriteFileAtomically((fs::path(path_) / kMarker).string(),
                        "Made by lshformer quickstart, which replaces it when run again.\n");
    for (const fs::directory_entry& entry : fs::directory_iterator(work_)) {
      const fs::path target = fs::path(path_) / entry.path().filename();
      fs::remove_all(target);
      fs::rename(entry.path(), target);
    }
  } catch (const fs::filesystem_error& error) {
    Fail("{}: cannot put the results in place: {}", Shown(path_, 120), error.code().message());
  }
}

struct PeakMemory::Watch {
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  std::atomic<double> peak{0};
  std::thread thread;

  void Look() {
    const double now = ResidentMegabytes();
    if (now > peak) peak = now;
  }
  void Loop() {
    constexpr auto kInterval = std::chrono::milliseconds(20);
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, kInterval, [this] { return stop; })) Look();
  }
};

PeakMemory::PeakMemory() : watch_(new Watch) {
  malloc_trim(0);  // what earlier work freed but the allocator kept is not this work's
  watch_->Look();
  watch_->thread = std::thread([this] { watch_->Loop(); });
}

PeakMemory::~PeakMemory() {
  {
    const std::lock_guard lock(watch_->mutex);
    watch_->stop = true;
  }
  watch_->wake.notify_all();
  watch_->thread.join();
  delete watch_;
}

double PeakMemory::Megabytes() const {
  watch_->Look();
  return watch_->peak;
}

}  // namespace lshformer
