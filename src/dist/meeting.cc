#include "dist/meeting.h"

#include "base/digest.h"
#include "base/error.h"

#ifdef LSHFORMER_DISTRIBUTED
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "base/files.h"
#include "base/signals.h"
#endif

namespace lshformer {

std::string JobToken(const Place& place, int generation) {
  return DigestOfText(fmt::format("{} {} {} {} {} {}", static_cast<int>(place.launcher), place.address, place.port,
                                  place.size, place.job, generation));
}

#ifdef LSHFORMER_DISTRIBUTED
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kPorts = 16;
constexpr const char* kTokenKey = "token";

// When a process began, in the system's ticks since it was started; "" where there is no such process, or only what is
// left of one until its parent has asked for it.
std::string BeginOf(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string line;
  if (!std::getline(file, line)) return "";
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
  constexpr size_t kBegin = 19;  // behind the name: state is the first
  if (words.size() <= kBegin || words[0] == "Z" || words[0] == "X") return "";
  return words[kBegin];
}

struct Note {
  std::string process, begin, file;
};

std::optional<Note> ReadAnyNote(const std::string& path) {
  std::ifstream file(path);
  Note note;
  if (!(file >> note.process >> note.begin >> note.file)) return std::nullopt;
  return note;
}
bool Stands(const Note& note) { return BeginOf(note.process) == note.begin; }

// nullopt: there is none, or it was left by a process that is gone.
std::optional<Note> ReadNote(const std::string& path) {
  const std::optional<Note> note = ReadAnyNote(path);
  return note && Stands(*note) ? note : std::nullopt;
}

// What jobs that were killed left behind.
void RemoveStaleNotes(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::optional<Note> note = ReadAnyNote(entry->path().string());
    std::error_code ignored;
    if (!note || Stands(*note) || !note->file.starts_with(folder + "/")) continue;
    fs::remove(note->file, ignored);
    fs::remove(entry->path(), ignored);
  }
}

milliseconds Left(Clock::time_point until) {
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(until - Clock::now()));
}

}  // namespace

std::string MeetingFolder() {
  const char* given = std::getenv("TMPDIR");
  const std::string base = given != nullptr && *given != '\0' ? given : "/tmp";
  const std::string folder = fmt::format("{}/lshformer-{}", base, getuid());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) Fail("{}: {}", folder, std::strerror(errno));
  struct stat found {};
  if (lstat(folder.c_str(), &found) != 0) Fail("{}: {}", folder, std::strerror(errno));
  if (!S_ISDIR(found.st_mode) || found.st_uid != getuid() || (found.st_mode & 077) != 0)
    Fail("{}: expected a folder of this user alone, in which the processes of a job meet; remove it, or set TMPDIR",
         folder);
  return folder;
}

Meeting::Meeting(const Place& place, const MeetingOptions& options, const std::string& token) {
  const Clock::time_point until = Clock::now() + std::chrono::seconds(options.timeout);
  if (place.one_host) {
    MeetInFolder(place, until, token);
  } else {
    const int first = options.port != 0 ? options.port : place.port != 0 ? place.port + 1 : 29501;
    MeetAtPort(place, first, until, token);
  }
}

void Meeting::MeetInFolder(const Place& place, Clock::time_point until, const std::string& token) {
  const std::string folder = MeetingFolder(), note = folder + "/" + token;
  if (place.rank == 0) {
    if (const auto other = ReadNote(note))
      Fail("process {} is rank 0 of a job with the same address and port (MASTER_ADDR, MASTER_PORT): give each its own",
           other->process);
    RemoveStaleNotes(folder);
    const std::string process = std::to_string(getpid());
    file_ = note + "." + process;
    std::error_code ignored;
    fs::remove(file_, ignored);
    store_ = c10::make_intrusive<c10d::FileStore>(file_, place.size);
    WriteFileAtomically(note, fmt::format("{} {} {}\n", process, BeginOf(process), file_));
    note_ = note;
    return;
  }
  for (;;) {
    if (const auto found = ReadNote(note)) {
      store_ = c10::make_intrusive<c10d::FileStore>(found->file, place.size);
      return;
    }
    ThrowIfStopped("meeting the other processes");
    if (Clock::now() > until) Fail("rank 0 did not arrive on this machine within {}", OptionName{"dist_timeout"});
    std::this_thread::sleep_for(milliseconds(20));
  }
}

void Meeting::MeetAtPort(const Place& place, int first_port, Clock::time_point until, const std::string& token) {
  c10d::TCPStoreOptions options;
  options.waitWorkers = false;
  const std::vector<uint8_t> own(token.begin(), token.end());
  std::string reason;
  if (place.rank == 0) {
    options.isServer = true;
    for (int port = first_port; port < first_port + kPorts && port <= 65535; ++port) {
      options.port = static_cast<uint16_t>(port);
      options.timeout = Left(until);
      try {
        store_ = c10::make_intrusive<c10d::TCPStore>(place.address, options);
        store_->set(kTokenKey, own);
        return;
      } catch (const std::exception& error) {
        reason = error.what();
      }
    }
    Fail("ports {} to {} are all in use; {} names another first one", first_port, first_port + kPorts - 1,
         OptionName{"dist_port"});
  }
  constexpr milliseconds kTry{1500};
  while (Clock::now() < until) {
    for (int port = first_port; port < first_port + kPorts && port <= 65535; ++port) {
      ThrowIfStopped("meeting the other processes");
      options.port = static_cast<uint16_t>(port);
      options.timeout = kTry;
      try {
        auto store = c10::make_intrusive<c10d::TCPStore>(place.address, options);
        store->setTimeout(kTry);
        if (store->get(kTokenKey) != own) continue;
        store->setTimeout(Left(until));
        store_ = store;
        return;
      } catch (const std::exception& error) {
        reason = error.what();
      }
    }
    std::this_thread::sleep_for(milliseconds(100));
  }
  const size_t line = reason.find('\n');
  Fail("{}: rank 0 did not answer on ports {} to {} within {}: {}", place.address, first_port, first_port + kPorts - 1,
       OptionName{"dist_timeout"}, Shown(reason.substr(0, line), 120));
}

Meeting::~Meeting() {
  std::error_code ignored;
  if (!note_.empty()) fs::remove(note_, ignored);
  if (!file_.empty()) fs::remove(file_, ignored);
}
#endif

}  // namespace lshformer
