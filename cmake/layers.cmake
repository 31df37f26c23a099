# One folder under src/ = one static library lshformer_<folder>; every .cc below the folder belongs to it.
#
#   lshformer_layer(io DEPENDS base LINK ZLIB::ZLIB)
#   lshformer_layer(nn DEPENDS ops TORCH)        # may include torch; shares one precompiled header
function(lshformer_layer name)
  cmake_parse_arguments(LAYER "TORCH" "" "DEPENDS;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/cli/main\\.cc$")
  add_library(lshformer_${name} STATIC ${sources})
  target_include_directories(lshformer_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                             $<INSTALL_INTERFACE:include/lshformer>)
  lshformer_options(lshformer_${name})
  foreach(dependency IN LISTS LAYER_DEPENDS)
    target_link_libraries(lshformer_${name} PUBLIC lshformer_${dependency})
  endforeach()
  target_link_libraries(lshformer_${name} PUBLIC ${LAYER_LINK})
  if(LAYER_TORCH)
    lshformer_torch_header(lshformer_${name})
  endif()
endfunction()

function(lshformer_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unused-parameter -Wno-psabi)
  if(LSHFORMER_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${LSHFORMER_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${LSHFORMER_SANITIZE})
  endif()
endfunction()

# torch/torch.h takes 14 s a file: it is compiled once, in ops, and reused.
function(lshformer_torch_header target)
  target_link_libraries(${target} PUBLIC ${TORCH_LIBRARIES} DNNL::dnnl)
  target_include_directories(${target} SYSTEM PUBLIC ${TORCH_INCLUDE_DIRS})
  if(target STREQUAL "lshformer_ops")
    target_precompile_headers(${target} PRIVATE <torch/torch.h>)
  else()
    target_precompile_headers(${target} REUSE_FROM lshformer_ops)
  endif()
endfunction()
