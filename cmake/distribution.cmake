# Whether libtorch brings c10d over Gloo, with the headers that its own ask for: Debian's does beside libgloo-dev, the wheels
# of PyPI have no headers of Gloo. A program of one process that meets itself must compile, link and run; else dist/ is built
# without, and says so when it is asked for several processes. Sets LSHFORMER_DISTRIBUTED.
get_target_property(torch_folders Torch::cpu INTERFACE_INCLUDE_DIRECTORIES)
file(WRITE ${PROJECT_BINARY_DIR}/distribution.cc [=[
#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/types.h>
#include <vector>

int main() {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  c10d::ProcessGroupGloo group(c10::make_intrusive<c10d::HashStore>(), 0, 1, options);
  torch::Tensor ones = torch::ones({2}), zeros = torch::zeros({2});
  std::vector<int64_t> counts{2};
  group.alltoall_base(zeros, ones, counts, counts)->wait();
  std::vector<torch::Tensor> inputs{ones};
  std::vector<std::vector<torch::Tensor>> outputs{{zeros}};
  group.allgather(outputs, inputs)->wait();
  group.broadcast(inputs)->wait();
  group.barrier()->wait();
  return zeros.equal(ones) ? 0 : 1;
}
]=])
if(NOT DEFINED LSHFORMER_DISTRIBUTED)
  try_run(distribution_status distribution_compiles ${PROJECT_BINARY_DIR}/distribution ${PROJECT_BINARY_DIR}/distribution.cc
          CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${torch_folders}" "-DCMAKE_CXX_STANDARD=20"
          LINK_LIBRARIES ${TORCH_CPU_LIBRARY} ${TORCH_C10_LIBRARY})
  set(found OFF)
  if(distribution_compiles AND "${distribution_status}" STREQUAL "0")
    set(found ON)
  endif()
  set(LSHFORMER_DISTRIBUTED ${found} CACHE BOOL "c10d over Gloo is there: training and inference in several processes")
endif()
if(NOT LSHFORMER_DISTRIBUTED)
  message(STATUS "without distribution: libtorch's c10d over Gloo cannot be used (Debian: libgloo-dev)")
endif()
