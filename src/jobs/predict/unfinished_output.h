// The output of `predict` until it is whole: lines that outlive the process, and what a later one must know to go on.
//
// Beside the output OUT there is a folder .lshformer-OUT.predict for as long as a run works on it, which it locks. In
// it grows the file that becomes OUT, and stands the record of what decides the answers. A run that is killed leaves
// both; one that is stopped leaves its lines in OUT and the record alone; one that is done leaves OUT.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/folder_lock.h"
#include "base/growing_file.h"
#include "base/json.h"
#include "base/writing.h"

namespace lshformer {

// The whole lines of a file of answers.
struct KeptLines {
  int64_t lines = 0, bytes = 0, bad = 0;  // bad: lines with an "error"
  std::string first_error;                // of the first of those
  std::string last;                       // the last line, with its end
  bool last_is_bad = false;
};
KeptLines ReadKeptLines(const std::string& path);

class UnfinishedOutput {
 public:
  // Of a place that is not written directly. Error where nothing may be written there; "--output: FOLDER is in use by
  // process PID" where another run is at work.
  UnfinishedOutput(const std::string& output, const OutputPlace& place);
  ~UnfinishedOutput();  // removes what was not kept
  UnfinishedOutput(const UnfinishedOutput&) = delete;
  UnfinishedOutput& operator=(const UnfinishedOutput&) = delete;

  // Starts anew; what another run has left goes with the first Write. record: an object; null where the run cannot be
  // repeated, so that nothing is kept of it.
  void Begin(Json record);
  // Finds the lines that a run before this one has left, in the folder or else in the output; it may have none.
  // UsageError where it had another record. Where an output has none, whether the lines are this run's is for the
  // caller to find out: nothing is changed before the first Write.
  const KeptLines& Resume(Json record);

  void Write(std::string_view lines);  // behind those that there are
  void Flush();
  // Puts the lines into place. `whole`: no run goes on behind them.
  void Commit(bool whole);
  // What is there outlives this object. False where nobody could go on with it.
  bool Keep();

  std::string rows() const { return folder_ + "/rows"; }  // for a file of another kind, which is not resumed
  const std::string& target() const { return place_.target; }

 private:
  std::string lines() const { return folder_ + "/lines"; }
  std::string copy() const { return folder_ + "/lines.copy"; }  // on its way to lines(), or to the record
  std::string record_file() const { return folder_ + "/run.json"; }
  void Open();

  std::string output_, folder_;
  OutputPlace place_;
  std::unique_ptr<FolderLock> lock_;
  Json record_;
  KeptLines kept_;
  bool begins_ = false;          // no line of an earlier run is taken over
  bool kept_in_output_ = false;  // those lines stand there
  bool keep_ = true;             // what another run has left, until this one writes
  std::optional<GrowingFile> file_;
};

}  // namespace lshformer
