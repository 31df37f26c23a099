// NaN, Infinity and -Infinity in JSON. RFC 8259 has none, but Python's json writes them, so ParseJson takes them where
// a number may stand. They become values of a type that no key takes: they disturb only where they are read.
#pragma once
#include "base/json.h"

namespace lshformer {

// Such a value; with `inside` also a list or object that has one somewhere in it.
bool IsNotFinite(const Json& value, bool inside = false);
// Each such value becomes null: JSON has no other way to write it.
void NullNotFinite(Json& value);

}  // namespace lshformer
