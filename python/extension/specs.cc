#include "specs.h"

#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/json.h"

namespace lshformer::extension {
namespace {

// A model's layers have a few specs and, of each, numbers of their own. What is more than `most` is forgotten, all at
// once: it is made again when it is asked for.
template <class Key, class Value>
class Kept {
 public:
  explicit Kept(size_t most) : most_(most) {}

  // The value of `key` if it is there and serves, else what `make` returns, kept.
  template <class Serves, class Make>
  std::shared_ptr<const Value> Get(const Key& key, const Serves& serves, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = kept_.find(key);
      if (found != kept_.end() && serves(*found->second)) return found->second;
    }
    auto made = std::make_shared<const Value>(make());
    const std::lock_guard lock(mutex_);
    if (kept_.size() >= most_) kept_.clear();
    kept_[key] = made;
    return made;
  }

 private:
  size_t most_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Value>> kept_;
};

}  // namespace

SpecPtr SpecOf(const std::string& json) {
  static Kept<std::string, AttentionSpec> kept(1024);
  return kept.Get(
      json, [](const AttentionSpec&) { return true; },
      [&] { return ParseAttentionSpec(ParseJson(json, kWhere), kWhere); });
}

ProjectionsPtr Drawn(const AttentionSpec& spec, const std::string& json, const AttentionShape& shape, uint32_t layer,
                     uint64_t step) {
  if (!AnySparse(spec, shape)) return nullptr;
  using Key = std::tuple<std::string, int, int, uint32_t, uint64_t>;
  static Kept<Key, Projections> kept(128);
  return kept.Get(
      Key{json, shape.heads, shape.head_dim, layer, step},
      [&](const Projections& projections) { return Suffice(projections, spec, shape); },
      [&] { return DrawProjections(spec, shape, layer, step); });
}

}  // namespace lshformer::extension
