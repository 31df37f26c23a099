# The library in two forms, of the same objects: liblshformer.a, and liblshformer.so with the minor version in its soname, since
# before 1.0 each minor version may change the interface. Both hold the layers that are built, but the command line.
set(LSHFORMER_LIBRARY_LAYERS ${LSHFORMER_BUILT_LAYERS})
list(REMOVE_ITEM LSHFORMER_LIBRARY_LAYERS cli)
set(LSHFORMER_LIBRARY_PACKAGES "")
set(objects "")
foreach(layer IN LISTS LSHFORMER_LIBRARY_LAYERS)
  list(APPEND objects $<TARGET_OBJECTS:lshformer_${layer}>)
  get_property(uses GLOBAL PROPERTY lshformer_${layer}_USES)
  list(APPEND LSHFORMER_LIBRARY_PACKAGES ${uses})
endforeach()
list(REMOVE_DUPLICATES LSHFORMER_LIBRARY_PACKAGES)
# Those that installed headers include are linked by whoever uses the library, the others by the shared library itself.
set(included fmt nlohmann_json libtorch)

add_library(lshformer_static STATIC ${objects})
add_library(lshformer_shared SHARED ${objects})
set_target_properties(lshformer_static PROPERTIES EXPORT_NAME lshformer)
set_target_properties(lshformer_shared PROPERTIES EXPORT_NAME shared VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
foreach(form lshformer_static lshformer_shared)
  set_target_properties(${form} PROPERTIES OUTPUT_NAME lshformer LINKER_LANGUAGE CXX
                        ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_compile_features(${form} PUBLIC cxx_std_20)
  target_include_directories(${form} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  foreach(package IN LISTS LSHFORMER_LIBRARY_PACKAGES)
    set(scope PUBLIC)
    if(form STREQUAL "lshformer_shared" AND NOT package IN_LIST included)
      set(scope PRIVATE)
    endif()
    target_link_libraries(${form} ${scope} ${lshformer_${package}_targets})
  endforeach()
endforeach()
# What others see of the shared library is namespace lshformer; its own calls stay inside (-Bsymbolic-functions), so that they
# cost what they cost in the archive.
target_link_options(lshformer_shared PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map -Wl,-Bsymbolic-functions
                    -Wl,--no-undefined)
set_property(TARGET lshformer_shared PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/exports.map)
