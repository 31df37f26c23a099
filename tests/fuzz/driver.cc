// Runs a fuzz target without libFuzzer: the seeds of a folder, then mutations of them. The same inputs every time.
//
//   json_fuzz CORPUS_FOLDER [MUTATIONS]      json_fuzz FILE      (one input, to reproduce a finding)
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/philox.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::string;
constexpr int kMutations = 20000;
constexpr size_t kLongest = 1 << 16;
constexpr auto kTime = std::chrono::seconds(5);  // a slow parser still gets the first of them

void Run(const Bytes& input) { LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size()); }

// Numbers at which size and offset arithmetic goes wrong.
constexpr uint64_t kBorders[] = {0,
                                 1,
                                 0x7F,
                                 0x80,
                                 0xFF,
                                 0x7FFF,
                                 0xFFFF,
                                 0x7FFFFFFF,
                                 0x80000000,
                                 0xFFFFFFFF,
                                 uint64_t{1} << 32,
                                 INT64_MAX,
                                 uint64_t{1} << 63,
                                 UINT64_MAX,
                                 UINT64_MAX - 7};
constexpr const char* kDigits[] = {"-1",    "0",  "4294967296", "9223372036854775807", "18446744073709551615",
                                   "1e308", "0.5"};

void MutateOnce(Bytes& input, const std::vector<Bytes>& seeds, lshformer::PhiloxStream& random) {
  const size_t at = random.Below(input.size() + 1);
  const size_t length = std::min<size_t>(random.Below(32) + 1, input.size() - at);
  switch (random.Below(9)) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << random.Below(8)));
      break;
    case 1:
      if (at < input.size()) input[at] = static_cast<char>(random.Below(256));
      break;
    case 2:
      input.insert(at, 1, static_cast<char>(random.Below(256)));
      break;
    case 3:
      input.erase(at, length);
      break;
    case 4:  // twice, or nested
      input.insert(at, input.substr(at, length));
      break;
    case 5: {
      const uint64_t border = kBorders[random.Below(std::size(kBorders))];
      for (size_t i = 0; i < 8 && at + i < input.size(); ++i) input[at + i] = static_cast<char>(border >> (8 * i));
      break;
    }
    case 6:
      input.insert(at, kDigits[random.Below(std::size(kDigits))]);
      break;
    case 7: {  // the end of another seed
      const Bytes& other = seeds[random.Below(seeds.size())];
      input = input.substr(0, at) + other.substr(random.Below(other.size() + 1));
      break;
    }
    default:
      input.resize(at);
  }
  if (input.size() > kLongest) input.resize(kLongest);
}

std::vector<Bytes> ReadSeeds(const std::filesystem::path& place) {
  std::vector<std::string> paths;
  if (std::filesystem::is_directory(place)) {
    for (const auto& entry : std::filesystem::directory_iterator(place)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());  // the order of a folder is not fixed
  } else {
    paths.push_back(place);
  }
  std::vector<Bytes> seeds;
  for (const std::string& path : paths) seeds.push_back(lshformer::ReadFile(path));
  return seeds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s FOLDER|FILE [MUTATIONS]\n", argv[0]), 2;
  const std::vector<Bytes> seeds = ReadSeeds(argv[1]);
  if (seeds.empty()) return std::fprintf(stderr, "%s: no seeds\n", argv[1]), 1;
  for (const Bytes& seed : seeds) Run(seed);
  Run("");
  const bool one_file = !std::filesystem::is_directory(argv[1]);
  const int mutations = argc > 2 ? std::atoi(argv[2]) : one_file ? 0 : kMutations;
  const auto start = std::chrono::steady_clock::now();
  int done = 0;
  for (; done < mutations && (argc > 2 || std::chrono::steady_clock::now() - start < kTime); ++done) {
    lshformer::PhiloxStream random(static_cast<uint64_t>(done));
    Bytes input = seeds[random.Below(seeds.size())];
    for (uint64_t changes = 1 + random.Below(4); changes > 0; --changes) MutateOnce(input, seeds, random);
    Run(input);
  }
  std::printf("%zu seeds, %d mutations\n", seeds.size(), done);
}
