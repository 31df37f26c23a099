// stderr, shared by log lines and the progress bar so that neither tears the other.
#pragma once
#include <string_view>

namespace lshformer {

// Writes a whole line (its '\n' included); a bar on the screen is wiped first and drawn anew by its next update.
void WriteStderrLine(std::string_view line);

// Replaces what is on the terminal's current line, without a '\n'.
void WriteStderrBar(std::string_view text);

// Wipes the bar, or ends its line with '\n' if `keep`. Nothing to do if none is drawn.
void EndStderrBar(bool keep);

}  // namespace lshformer
