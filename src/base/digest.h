// Whether a file still is what it was.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lshformer {

// 128 bits of the contents of regular files, in the order given, as 32 hexadecimal digits. Tells
// apart what differs by chance or mistake, at the speed of memory; it is no proof against those who mean to deceive.
// Error where a file cannot be read; Interrupted after a signal.
std::string DigestOfFiles(const std::vector<std::string>& paths);
// The same of a text.
std::string DigestOfText(std::string_view text);

}  // namespace lshformer
