# Everything the libraries link. Debian 12 packages are enough; newer upstream versions work too. Installed beside
# lshformerConfig.cmake, so that a program that links lshformer finds the same.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc i18n)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET GLOBAL libhwy)
pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET GLOBAL sentencepiece)  # and its trainer
if(LSHFORMER_THREADS STREQUAL "openmp")
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
if(LSHFORMER_WITH_TORCH)
  # Not find_package(Torch): a build of libtorch with CUDA, as the wheels of PyPI have, asks there for the CUDA toolkit,
  # which the CPU half, all that is used, does without. Found in Debian's folders or below CMAKE_PREFIX_PATH.
  find_path(TORCH_INCLUDE_DIR torch/csrc/autograd/custom_function.h PATH_SUFFIXES include REQUIRED)
  find_path(TORCH_API_INCLUDE_DIR torch/types.h HINTS ${TORCH_INCLUDE_DIR} PATH_SUFFIXES torch/csrc/api/include REQUIRED)
  find_library(TORCH_CPU_LIBRARY torch_cpu PATH_SUFFIXES lib REQUIRED)
  find_library(TORCH_C10_LIBRARY c10 PATH_SUFFIXES lib REQUIRED)
  set(torch_headers "${TORCH_INCLUDE_DIR}")
  if(EXISTS "${TORCH_INCLUDE_DIR}/fmt" AND EXISTS "${TORCH_INCLUDE_DIR}/oneapi")
    # A folder with the libraries that upstream compiles into libtorch as well, in versions of its own (fmt, oneDNN):
    # they must not be found before those that are linked.
    set(torch_headers "${CMAKE_CURRENT_BINARY_DIR}/torch_include")
    file(MAKE_DIRECTORY "${torch_headers}")
    foreach(part torch ATen c10 caffe2)
      file(CREATE_LINK "${TORCH_INCLUDE_DIR}/${part}" "${torch_headers}/${part}" SYMBOLIC)
    endforeach()
  endif()
  if(NOT TARGET Torch::cpu)
    add_library(Torch::c10 UNKNOWN IMPORTED)
    set_target_properties(Torch::c10 PROPERTIES IMPORTED_LOCATION "${TORCH_C10_LIBRARY}")
    add_library(Torch::cpu UNKNOWN IMPORTED)
    set_target_properties(Torch::cpu PROPERTIES IMPORTED_LOCATION "${TORCH_CPU_LIBRARY}"
                          INTERFACE_INCLUDE_DIRECTORIES "${torch_headers};${TORCH_API_INCLUDE_DIR}"
                          INTERFACE_LINK_LIBRARIES Torch::c10)
  endif()
  # Not find_package(dnnl): Debian's package asks for OpenCL headers, which only the GPU engine needs.
  # Its headers beside its library: libtorch's folder may hold those of another version, compiled into libtorch.
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  get_filename_component(dnnl_folder "${DNNL_LIBRARY}" DIRECTORY)
  find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp HINTS "${dnnl_folder}/../include" "${dnnl_folder}/../../include"
            NO_CMAKE_PATH REQUIRED)
  if(NOT TARGET DNNL::dnnl)
    add_library(DNNL::dnnl UNKNOWN IMPORTED)
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${DNNL_LIBRARY}"
                          INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
  endif()
endif()
