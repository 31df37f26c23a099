// Memory that is kept from one use to the next.
#include "ops/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "kernels/work_memory.h"
#include "ops/large_blocks.h"
#include "ops/tensor_memory.h"
#include "ops/torch.h"

namespace lshformer {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

TEST(LargeBlocksTest, AFreeBlockServesWhatIsLittleSmaller) {
  LargeBlocks blocks(100 * kMegabyte, 100 * kMegabyte);
  MemoryBlock block = blocks.Take(20 * kMegabyte);
  void* const memory = block.memory.get();
  ASSERT_GE(block.capacity, 20 * kMegabyte);
  const size_t capacity = block.capacity;
  blocks.Give(std::move(block));
  EXPECT_EQ(blocks.free_bytes(), capacity);
  EXPECT_NE(blocks.Take(10 * kMegabyte).memory.get(), memory) << "half of it would lie idle";
  EXPECT_NE(blocks.Take(capacity + 1).memory.get(), memory);
  EXPECT_EQ(blocks.free_bytes(), capacity);
  MemoryBlock again = blocks.Take(capacity * 9 / 10);
  EXPECT_EQ(again.memory.get(), memory);
  EXPECT_EQ(blocks.free_bytes(), 0u);
}

TEST(LargeBlocksTest, TheSmallestThatFitsIsTaken) {
  LargeBlocks blocks(100 * kMegabyte, 100 * kMegabyte);
  MemoryBlock large = blocks.Take(22 * kMegabyte), small = blocks.Take(20 * kMegabyte);
  void *const first = large.memory.get(), *const second = small.memory.get();
  blocks.Give(std::move(large));
  blocks.Give(std::move(small));
  MemoryBlock taken = blocks.Take(20 * kMegabyte), next = blocks.Take(20 * kMegabyte);
  EXPECT_EQ(taken.memory.get(), second);
  EXPECT_EQ(next.memory.get(), first);
}

TEST(LargeBlocksTest, TheOldestGoWhereThereAreTooMany) {
  LargeBlocks blocks(50 * kMegabyte, 100 * kMegabyte);
  std::vector<MemoryBlock> taken;
  for (const size_t size : {16, 20, 24}) taken.push_back(blocks.Take(size * kMegabyte));
  void *const second = taken[1].memory.get(), *const third = taken[2].memory.get();
  for (MemoryBlock& block : taken) blocks.Give(std::move(block));
  EXPECT_LE(blocks.free_bytes(), 50 * kMegabyte);
  MemoryBlock middle = blocks.Take(20 * kMegabyte), last = blocks.Take(24 * kMegabyte);
  EXPECT_EQ(middle.memory.get(), second);
  EXPECT_EQ(last.memory.get(), third);
  EXPECT_EQ(blocks.free_bytes(), 0u) << "the first was given up";
  blocks.Give(blocks.Take(60 * kMegabyte));
  EXPECT_EQ(blocks.free_bytes(), 0u) << "above the limit alone";
}

// A process takes no more memory than its busiest moment needed, and a little: what lies free makes room.
TEST(LargeBlocksTest, FreeBlocksGoWhereANewOneWouldExceedTheMostThatWasTaken) {
  LargeBlocks blocks(200 * kMegabyte, 10 * kMegabyte);
  std::vector<MemoryBlock> taken;
  for (int i = 0; i < 3; ++i) taken.push_back(blocks.Take(20 * kMegabyte));  // 60 megabytes at once
  for (MemoryBlock& block : taken) blocks.Give(std::move(block));
  const size_t all = blocks.free_bytes();
  const MemoryBlock little = blocks.Take(8 * kMegabyte);
  EXPECT_EQ(blocks.free_bytes(), all) << "within the slack";
  const MemoryBlock large = blocks.Take(30 * kMegabyte);
  EXPECT_EQ(blocks.free_bytes(), all / 3) << "two of three went";
}

// What nobody has memory for fails, and costs the free blocks.
TEST(LargeBlocksTest, FreeBlocksGoBeforeMemoryDoes) {
  LargeBlocks blocks(100 * kMegabyte, 100 * kMegabyte);
  blocks.Give(blocks.Take(20 * kMegabyte));
  EXPECT_THROW(blocks.Take(size_t{1} << 60), std::bad_alloc);
  EXPECT_EQ(blocks.free_bytes(), 0u);
}

TEST(LargeBlocksTest, TensorsTakeTheirMemoryFromThem) {
  constexpr int64_t kElements = 10 << 20;
  KeepTensors(32 * kMegabyte, 256 * kMegabyte, 64 * kMegabyte);
  void* memory = nullptr;
  {
    const torch::Tensor large = torch::ones({kElements}), small = torch::ones({100});
    memory = large.data_ptr();
    EXPECT_EQ(large.sum().item<float>(), static_cast<float>(kElements));
  }
  const TensorMemory counted;
  const torch::Tensor zeros = torch::zeros({kElements});
  EXPECT_EQ(zeros.data_ptr(), memory);
  EXPECT_EQ(zeros.abs().max().item<float>(), 0);
  EXPECT_GE(counted.peak(), 4 * kElements);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([thread] {
      for (int round = 0; round < 20; ++round) {
        const torch::Tensor mine = torch::empty({kElements + round * 1000});
        std::memset(mine.data_ptr(), thread, 4096);
        EXPECT_EQ(static_cast<const char*>(mine.data_ptr())[4095], thread);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(LargeBlocksTest, SmallTensorsAreAlignedAndTheirOwn) {
  KeepTensors(32 * kMegabyte, 256 * kMegabyte, 64 * kMegabyte);
  std::vector<torch::Tensor> tensors;
  for (int64_t bytes = 0; bytes < 300; ++bytes) tensors.push_back(torch::full({bytes}, bytes % 128, torch::kByte));
  tensors.push_back(torch::full({31 << 20}, 1, torch::kByte));
  for (const torch::Tensor& tensor : tensors) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0u) << tensor.numel();
    if (tensor.numel() > 0) {
      EXPECT_TRUE(tensor.eq(tensor[0]).all().item<bool>()) << tensor.numel();
    }
  }
  // To grow in place is libtorch's business: the old numbers stay.
  torch::Tensor grown = torch::ones({10});
  grown.resize_({5000});
  EXPECT_EQ(grown.slice(0, 0, 10).sum().item<float>(), 10);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// What a long text leaves with malloc goes back to the kernel, the large blocks of tensors and the others.
TEST(FreedMemoryTest, IsHandedBackWhereThatIsAskedFor) {
  KeepFreedMemory();
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    int64_t size = 0, pages = 0;
    file >> size >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  constexpr auto kMegabytes = static_cast<int64_t>(kMegabyte);
  ReturnFreedMemory();
  const int64_t before = resident();
  {
    std::vector<torch::Tensor> tensors;
    for (int i = 0; i < 60; ++i) tensors.push_back(torch::ones({int64_t{1} << 19}));  // 2 MB each
    for (int i = 0; i < 2; ++i) tensors.push_back(torch::ones({int64_t{10} << 20}));  // 40 MB each
    ASSERT_GE(resident(), before + 190 * kMegabytes);
  }
  ASSERT_GE(resident(), before + 150 * kMegabytes) << "it is kept for the next use";
  ReturnFreedMemory();
  EXPECT_LE(resident(), before + 20 * kMegabytes);
}
#endif

}  // namespace
}  // namespace lshformer
