#include "base/temporaries.h"

#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>

namespace lshformer {
namespace {

enum State : int { kFree, kTaken, kSet };  // kTaken: its path is being written
struct Slot {
  std::atomic<int> state{kFree};
  char path[PATH_MAX];
};
constexpr int kSlots = 100;
Slot slots[kSlots];
static_assert(std::atomic<int>::is_always_lock_free);  // what a signal handler may touch

}  // namespace

void TemporaryName::Set(const std::string& path) {
  Clear();
  if (path.size() >= sizeof(Slot::path)) return;
  for (int i = 0; i < kSlots; ++i) {
    int free = kFree;
    if (!slots[i].state.compare_exchange_strong(free, kTaken)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    slots[i].state = kSet;
    slot_ = i;
    return;
  }
}

void TemporaryName::Clear() {
  if (slot_ >= 0) slots[slot_].state = kFree;
  slot_ = -1;
}

void RemoveTemporaries() {
  for (Slot& slot : slots)
    if (slot.state == kSet) unlink(slot.path);
}

}  // namespace lshformer
