# Takes seconds a file and is in most of them: precompiled.
set(LSHFORMER_SLOW_HEADERS <nlohmann/json.hpp> <spdlog/spdlog.h>)

# One folder under src/ = one layer = one static library lshformer_<folder>; every .cc below the folder belongs to it.
#
#   lshformer_layer(io LEVEL 1 DEPENDS base LINK ZLIB::ZLIB)
#   lshformer_layer(nn LEVEL 3 DEPENDS ops data TORCH)   # may include libtorch and oneDNN; shares one precompiled header
#
# A layer depends on layers of lower levels only. It includes only its own folder and layers that it depends on, directly or
# through another; tests/include_rules_test.cc reads these very calls from layers.txt in the build folder.
# The presets release, asan and tsan compile sources in eights (CMAKE_UNITY_BUILD), the tests' too, but not the kernels,
# which include themselves, once for each instruction set, nor layers with libtorch: the program that does without it links
# those of their sources that it needs.
# PRIVATE_HEADERS are not installed; nor are headers in folders below the layer's own, nor *-inl.h.
function(lshformer_layer name)
  cmake_parse_arguments(LAYER "TORCH" "LEVEL" "DEPENDS;LINK;PRIVATE_HEADERS" ${ARGN})
  set_property(GLOBAL PROPERTY lshformer_level_${name} ${LAYER_LEVEL})
  foreach(dependency IN LISTS LAYER_DEPENDS)
    get_property(below GLOBAL PROPERTY lshformer_level_${dependency})
    if("${below}" STREQUAL "" OR NOT below LESS LAYER_LEVEL)
      message(FATAL_ERROR "src/CMakeLists.txt: ${name} (level ${LAYER_LEVEL}) cannot depend on ${dependency} (level ${below})")
    endif()
  endforeach()
  list(JOIN LAYER_DEPENDS " " dependencies)
  set_property(GLOBAL APPEND PROPERTY lshformer_layer_rows "${name} ${LAYER_LEVEL} ${LAYER_TORCH} ${dependencies}")
  if(LAYER_TORCH AND NOT LSHFORMER_WITH_TORCH)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY lshformer_layers ${name})
  lshformer_public_headers(${name} ${LAYER_PRIVATE_HEADERS})

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/cli/(main|start|without_models)\\.cc$")
  add_library(lshformer_${name} STATIC ${sources})
  target_include_directories(lshformer_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_compile_features(lshformer_${name} PUBLIC cxx_std_20)
  lshformer_options(lshformer_${name})
  if(LAYER_TORCH OR name STREQUAL "kernels")
    set_target_properties(lshformer_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  foreach(dependency IN LISTS LAYER_DEPENDS)
    target_link_libraries(lshformer_${name} PUBLIC lshformer_${dependency})
  endforeach()
  target_link_libraries(lshformer_${name} PUBLIC ${LAYER_LINK})
  if(LAYER_TORCH)
    lshformer_torch_header(lshformer_${name})
  elseif(name STREQUAL "base")
    target_precompile_headers(lshformer_base PRIVATE ${LSHFORMER_SLOW_HEADERS})
  elseif(NOT name STREQUAL "kernels")  # includes none of them
    target_precompile_headers(lshformer_${name} REUSE_FROM lshformer_base)
  endif()
endfunction()

# Adds the headers of a layer that are installed to the global property lshformer_public_headers, as paths below src/.
function(lshformer_public_headers layer)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${layer}/*.h)
  list(FILTER headers EXCLUDE REGEX "-inl\\.h$")
  foreach(private IN LISTS ARGN)
    if(NOT "${layer}/${private}" IN_LIST headers)
      message(FATAL_ERROR "src/CMakeLists.txt: ${layer}/${private}, said to be private, is no header of the layer")
    endif()
    list(REMOVE_ITEM headers ${layer}/${private})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY lshformer_public_headers ${headers})
endfunction()

# After the last layer: layers.txt, a line "name level TORCH? dependencies…" each.
function(lshformer_write_layers)
  get_property(rows GLOBAL PROPERTY lshformer_layer_rows)
  list(JOIN rows "\n" text)
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/layers.txt CONTENT "${text}\n")
endfunction()

function(lshformer_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unused-parameter -Wno-psabi)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-restrict)  # false alarms of GCC 12 at std::string (its bug 105651)
  endif()
  if(LSHFORMER_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${LSHFORMER_SANITIZE} -fno-omit-frame-pointer)
    if(NOT LSHFORMER_SANITIZE STREQUAL "thread")
      target_compile_options(${target} PRIVATE -fno-sanitize-recover=all)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${LSHFORMER_SANITIZE})
  endif()
  if(LSHFORMER_BUILD_FUZZERS)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# libtorch's headers take ten seconds a file: they are compiled once, in ops, and reused. Loading them takes seconds as well, so
# sources that never reach them do without.
function(lshformer_torch_header target)
  target_link_libraries(${target} PUBLIC DNNL::dnnl Torch::cpu)
  lshformer_reuse_torch_header(${target})
endfunction()

set(LSHFORMER_TORCH_HEADERS <torch/csrc/autograd/custom_function.h> <torch/types.h> ${LSHFORMER_SLOW_HEADERS})

# FROM: the target that makes the precompiled header (default lshformer_ops); its own name: it does, with EXTRA headers.
function(lshformer_reuse_torch_header target)
  cmake_parse_arguments(TORCH "" "FROM" "EXTRA" ${ARGN})
  if(NOT TORCH_FROM)
    set(TORCH_FROM lshformer_ops)
  endif()
  if(target STREQUAL TORCH_FROM)
    target_precompile_headers(${target} PRIVATE ${LSHFORMER_TORCH_HEADERS} ${TORCH_EXTRA})
  else()
    target_precompile_headers(${target} REUSE_FROM ${TORCH_FROM})
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(path ${source} ABSOLUTE)
    lshformer_reaches_torch(${path} reaches)
    if(NOT reaches)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# Whether a file includes libtorch, itself or through headers of the project.
function(lshformer_reaches_torch path result)
  get_property(known GLOBAL PROPERTY lshformer_reaches_torch_${path})
  if("${known}" STREQUAL "")
    set(known FALSE)
    set_property(GLOBAL PROPERTY lshformer_reaches_torch_${path} FALSE)  # ends a circle of includes
    file(STRINGS ${path} includes REGEX "^ *# *include")
    foreach(line IN LISTS includes)
      if(line MATCHES "<(torch|ATen|c10)/")
        set(known TRUE)
      elseif(line MATCHES "\"([^\"]+)\"")
        set(header ${CMAKE_MATCH_1})
        foreach(root ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
          if(NOT known AND EXISTS ${root}/${header})
            lshformer_reaches_torch(${root}/${header} known)
          endif()
        endforeach()
      endif()
    endforeach()
    set_property(GLOBAL PROPERTY lshformer_reaches_torch_${path} ${known})
  endif()
  set(${result} ${known} PARENT_SCOPE)
endfunction()
