#include "dist/communicator.h"

#include <algorithm>
#include <csignal>

#include "base/error.h"
#include "base/signals.h"

#ifdef LSHFORMER_DISTRIBUTED
#define USE_C10D_GLOO  // how libtorch was built; its headers ask
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "dist/meeting.h"
#endif

namespace lshformer {

std::vector<std::string> Communicator::AllGather(const std::string& mine) {
  // Twice: the lengths, then the texts in rooms as long as the longest.
  const auto count = static_cast<size_t>(size());
  std::vector<uint64_t> lengths(count);
  const uint64_t own = mine.size();
  AllGatherBytes(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(lengths)));
  const uint64_t longest = std::max<uint64_t>(1, *std::max_element(lengths.begin(), lengths.end()));
  std::string room = mine, rooms(longest * count, '\0');
  room.resize(longest);
  AllGatherBytes(std::as_bytes(std::span(room)), std::as_writable_bytes(std::span(rooms)));
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < count; ++rank) texts.push_back(rooms.substr(rank * longest, lengths[rank]));
  return texts;
}

std::string Communicator::Broadcast(const std::string& text, int from) {
  uint64_t length = text.size();
  Broadcast(std::as_writable_bytes(std::span(&length, 1)), from);
  std::string room = text;
  room.resize(length);
  if (length > 0) Broadcast(std::as_writable_bytes(std::span(room)), from);
  return room;
}

int64_t Communicator::Max(int64_t mine) {
  std::vector<int64_t> all(static_cast<size_t>(size()));
  AllGatherBytes(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return *std::max_element(all.begin(), all.end());
}

void ThrowIfAnyStopped(Communicator* processes, int own, const char* what) {
  int signal = own != 0 ? own : StopSignal();
  if (processes != nullptr) signal = static_cast<int>(processes->Max(signal));
  if (signal != 0)
    throw Interrupted(signal, fmt::format("{}: stopped by {}", what, signal == SIGINT ? "SIGINT" : "SIGTERM"));
}

void RequireSame(Communicator& communicator, const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string mine;
  for (const auto& [name, value] : facts) mine += name + '\x1f' + value + '\x1e';
  const std::vector<std::string> all = communicator.AllGather(mine);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto [first, other] = std::mismatch(all[0].begin(), all[0].end(), all[rank].begin(), all[rank].end());
    const size_t place = static_cast<size_t>(first - all[0].begin());
    // The name of the pair in which they part.
    const size_t before = place == 0 ? std::string::npos : all[0].rfind('\x1e', place - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    const auto pair_of = [&](const std::string& text) {
      return text.substr(begin, std::min(text.find('\x1e', begin), text.size()) - begin);
    };
    const std::string pair = pair_of(all[0]), others = pair_of(all[rank]);
    const size_t value = std::min(pair.find('\x1f'), pair.size()), its = std::min(others.find('\x1f'), others.size());
    Fail("the processes do not do the same: {} is {} at rank 0 and {} at rank {}", pair.substr(0, value),
         Shown(std::string_view(pair).substr(std::min(value + 1, pair.size())), 60),
         Shown(std::string_view(others).substr(std::min(its + 1, others.size())), 60), rank);
  }
}

#ifndef LSHFORMER_DISTRIBUTED

bool HasDistribution() { return false; }

std::shared_ptr<Communicator> JoinProcesses(const MeetingOptions& options) {
  if (!options.join) return nullptr;
  const Place place = PlaceFrom(ProcessEnvironment());
  if (place.size == 1) return nullptr;
  Fail("this build is without distribution (libtorch's Gloo), so it cannot be one of {} processes", place.size);
}

#else
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "?";
}

// The address by which the machine of rank 0 is reached; names of this machine itself often mean its loopback
// interface. Asks the system's routes; nothing is sent.
std::string AddressTowards(const std::string& host) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_DGRAM;
  if (const int error = getaddrinfo(host.c_str(), "9", &wanted, &found); error != 0)
    Fail("MASTER_ADDR {}: {}", Shown(host), gai_strerror(error));
  std::string text;
  for (const addrinfo* address = found; address != nullptr && text.empty(); address = address->ai_next) {
    const int probe = socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    char numbers[NI_MAXHOST];
    if (connect(probe, address->ai_addr, address->ai_addrlen) == 0 &&
        getsockname(probe, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), size, numbers, sizeof(numbers), nullptr, 0, NI_NUMERICHOST) == 0)
      text = numbers;
    close(probe);
  }
  freeaddrinfo(found);
  if (text.empty()) Fail("MASTER_ADDR {}: no way leads there", Shown(host));
  return text;
}

torch::Tensor Viewed(std::span<const std::byte> bytes) {
  return torch::from_blob(const_cast<std::byte*>(bytes.data()), {static_cast<int64_t>(bytes.size())}, torch::kUInt8);
}
torch::Tensor Viewed(std::span<const float> floats) {
  return torch::from_blob(const_cast<float*>(floats.data()), {static_cast<int64_t>(floats.size())}, torch::kFloat32);
}

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(const Place& place, const MeetingOptions& options, int generation)
      : Communicator(place.rank, place.size),
        timeout_(std::chrono::seconds(options.timeout)),
        meeting_(std::make_unique<Meeting>(place, options, JobToken(place, generation))) {
    hosts_.resize(static_cast<size_t>(place.size));
    store()->setTimeout(milliseconds(500));
    Arrive();
    store()->setTimeout(std::min<milliseconds>(timeout_, std::chrono::seconds(60)));
    const auto gloo = c10d::ProcessGroupGloo::Options::create(timeout_);
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    gloo->devices.push_back(place.one_host ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                            : interface != nullptr && *interface != '\0'
                                ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                                : c10d::ProcessGroupGloo::createDeviceForHostname(AddressTowards(place.address)));
    gloo->threads = 2;
    // Connects all to all.
    Try([&] { group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store(), place.rank, place.size, gloo); });
    store()->setTimeout(kAnswer);
  }

  ~GlooCommunicator() override {
    if (failed_ || std::uncaught_exceptions() > exceptions_) {
      Leave();
      if (group_.defined()) group_.release();  // its threads wait for those who do not come
    } else {
      Part();
    }
  }

  using Communicator::AllGather;
  using Communicator::Broadcast;

  void AllGather(std::span<const float> mine, std::span<float> all) override {
    Count(static_cast<int64_t>(mine.size_bytes()) * (size() - 1));
    Gather(Viewed(mine), Viewed(std::span<const float>(all)));
  }

  void AllToAll(std::span<const float> send, const std::vector<int64_t>& send_counts, std::span<float> receive,
                const std::vector<int64_t>& receive_counts) override {
    torch::Tensor out = Viewed(std::span<const float>(receive)), in = Viewed(send);
    std::vector<int64_t> out_counts = receive_counts, in_counts = send_counts;
    Count(static_cast<int64_t>(send.size_bytes()) -
          send_counts[static_cast<size_t>(rank())] * static_cast<int64_t>(sizeof(float)));
    Try([&] { group_->alltoall_base(out, in, out_counts, in_counts)->wait(); });
  }

  void Broadcast(std::span<std::byte> bytes, int from) override {
    std::vector<at::Tensor> tensors{Viewed(std::span<const std::byte>(bytes))};
    c10d::BroadcastOptions options;
    options.rootRank = from;
    Count(rank() == from ? static_cast<int64_t>(bytes.size()) : 0);
    Try([&] { group_->broadcast(tensors, options)->wait(); });
  }

  void Barrier() override {
    Count(0);
    Try([&] { group_->barrier()->wait(); });
  }

 private:
  void AllGatherBytes(std::span<const std::byte> mine, std::span<std::byte> all) override {
    Count(static_cast<int64_t>(mine.size()) * (size() - 1));
    Gather(Viewed(mine), Viewed(std::span<const std::byte>(all)));
  }

  void Gather(const torch::Tensor& mine, const torch::Tensor& all) {
    std::vector<at::Tensor> inputs{mine};
    std::vector<std::vector<at::Tensor>> outputs{all.view({size(), -1}).unbind(0)};
    Try([&] { group_->allgather(outputs, inputs)->wait(); });
  }

  const c10::intrusive_ptr<c10d::Store>& store() const { return meeting_->store(); }
  static std::string Key(const char* what, int rank) { return fmt::format("{}/{}", what, rank); }
  void Say(const char* what, const std::string& text) {
    store()->set(Key(what, rank()), std::vector<uint8_t>(text.begin(), text.end()));
  }
  bool Said(const char* what, int rank) { return store()->check({Key(what, rank)}); }

  std::string Named(int rank) const { return fmt::format("rank {} ({})", rank, hosts_[static_cast<size_t>(rank)]); }

  void Arrive() {
    Say("here", fmt::format("{}, process {}", HostName(), getpid()));
    const Clock::time_point until = Clock::now() + timeout_;
    for (int rank = 0; rank < size(); ++rank) {
      while (!IsHere(rank)) {
        ThrowIfStopped("meeting the other processes");
        if (Clock::now() > until) FailMissing(rank);
        std::this_thread::sleep_for(milliseconds(20));
      }
      const std::vector<uint8_t> host = store()->get(Key("here", rank));
      hosts_[static_cast<size_t>(rank)].assign(host.begin(), host.end());
    }
  }

  // Who gives up takes the store along.
  bool IsHere(int rank) {
    try {
      return Said("here", rank);
    } catch (const std::exception&) {
      return false;
    }
  }

  [[noreturn]] void FailMissing(int first) {
    std::string missing;
    for (int rank = first; rank < size(); ++rank)
      if (!IsHere(rank)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
    failed_ = true;
    Fail("rank {} did not arrive within {} {}", missing, OptionName{"dist_timeout"}, timeout_.count() / 1000);
  }

  // What a call that fails says of the others is an address at best. So those that are left answer a roll call in the
  // store, and who does not is the one that is gone.
  template <class Call>
  void Try(const Call& call) {
    if (failed_) Fail("a process of the job was lost");
    std::string reason;
    try {
      call();
      return;
    } catch (const std::exception& error) {
      reason = error.what();
    }
    failed_ = true;
    Fail("{}", WhoIsGone(reason));
  }

  std::string WhoIsGone(const std::string& reason) {
    try {
      store()->setTimeout(kAnswer);
      Say("alive", "");
      const Clock::time_point until = Clock::now() + kAnswer;
      std::vector<int> silent;
      do {
        silent.clear();
        for (int rank = 0; rank < size(); ++rank) {
          if (Said("left", rank)) return Named(rank) + " stopped, as its own error says; so all do";
          if (!Said("alive", rank)) silent.push_back(rank);
        }
        if (!silent.empty()) std::this_thread::sleep_for(milliseconds(50));
      } while (!silent.empty() && Clock::now() < until);
      if (!silent.empty()) return Named(silent.front()) + " is gone or does not answer; so all stop";
    } catch (const std::exception&) {
      return Named(0) + ", whom all others ask, is gone or does not answer; so all stop";
    }
    return fmt::format("a connection between processes failed: {}", Shown(reason.substr(0, reason.find('\n')), 120));
  }

  // An error of this rank's own ends it: the others are to know at once.
  void Leave() {
    try {
      store()->setTimeout(milliseconds(1000));
      if (failed_) return;
      Say("left", "");
      group_.reset();  // they see the connections end
      // Rank 0's store goes with it: the others are to read that before.
      const Clock::time_point until = Clock::now() + milliseconds(1500);
      for (int rank = 1; rank < size() && this->rank() == 0; ++rank)
        while (!Said("alive", rank) && !Said("left", rank) && Clock::now() < until)
          std::this_thread::sleep_for(milliseconds(20));
      if (rank() == 0) std::this_thread::sleep_for(milliseconds(100));
    } catch (const std::exception&) {
    }
  }

  // All leave together: rank 0 last, which may keep the store. Others may wait long for what it alone writes.
  void Part() {
    try {
      Say("done", "");
      for (int rank = 0; rank < size(); ++rank)
        while (!Said("done", rank)) {
          if (Said("left", rank) || StopSignal() != 0) return Abandon();
          std::this_thread::sleep_for(milliseconds(10));
        }
      Say("gone", "");
      const Clock::time_point until = Clock::now() + std::chrono::seconds(5);
      for (int rank = 1; rank < size() && this->rank() == 0; ++rank)
        while (!Said("gone", rank) && Clock::now() < until) std::this_thread::sleep_for(milliseconds(5));
    } catch (const std::exception&) {
      Abandon();
    }
  }

  void Abandon() { group_.release(); }

  static constexpr milliseconds kAnswer{2500};  // of a store that is there, and of ranks that are asked for
  milliseconds timeout_;
  std::unique_ptr<Meeting> meeting_;
  std::vector<std::string> hosts_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  bool failed_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

bool HasDistribution() { return true; }

std::shared_ptr<Communicator> JoinProcesses(const MeetingOptions& options) {
  if (!options.join) return nullptr;
  static std::weak_ptr<Communicator> joined;
  static int generation = 0;
  if (auto communicator = joined.lock()) return communicator;
  const Place place = PlaceFrom(ProcessEnvironment());
  if (place.size == 1) return nullptr;
  if (!place.one_host) AddressTowards(place.address);  // an error that names it, before anybody is waited for
  auto communicator = std::make_shared<GlooCommunicator>(place, options, generation++);
  joined = communicator;
  return communicator;
}
#endif

}  // namespace lshformer
