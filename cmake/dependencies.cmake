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
if(LSHFORMER_THREADS STREQUAL "openmp")
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
if(LSHFORMER_WITH_TORCH)
  find_package(Torch REQUIRED)
  # Not find_package(dnnl): Debian's package asks for OpenCL headers, which only the GPU engine needs.
  find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  if(NOT TARGET DNNL::dnnl)
    add_library(DNNL::dnnl UNKNOWN IMPORTED)
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${DNNL_LIBRARY}"
                          INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
  endif()
endif()
