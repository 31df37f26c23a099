// What writers of files have in common: where an output is, writes that are not cut short, renames that last.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace lshformer {

// Where a path to write to leads.
struct OutputPlace {
  std::string target;             // links followed
  std::optional<int> descriptor;  // the open file that the path stands for: "-", /dev/stdout
  bool direct = false;            // it, a device or a pipe: written as it stands, never replaced
};
// Error where the name is empty, says that the file is to be compressed, or is a folder's.
OutputPlace PlaceOfOutput(const std::string& path);
// False of a file without write permission: renaming over it would work, but whoever took that away meant it.
bool MayReplace(const std::string& target);

// OptionError of `output_name` where it is the same regular file as `input`, which option `name` has, whatever their
// names: links, hard links, relative paths. "-" is stdin or stdout. What is read would be replaced by what is made of
// it.
void RefuseInputAsOutput(std::string_view name, const std::string& input, const std::string& output,
                         std::string_view output_name = "output");

std::string WriteCause(int error);  // of errno: "disk full", …
[[noreturn]] void FailWrite(const std::string& name, int error);
// All bytes, whatever signals come; Error names `name`.
void WriteAll(int file, std::string_view bytes, const std::string& name);

std::string ParentFolder(const std::string& path);
// Without this a rename may be lost when the machine stops. Some file systems cannot sync folders; that is no failure.
void SyncFolder(const std::string& folder);

}  // namespace lshformer
