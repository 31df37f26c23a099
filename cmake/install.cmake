# cmake --install: the program, the headers under include/lshformer, the layers' static libraries and
# find_package(lshformer), whose target lshformer::lshformer stands for all layers below the command line.
include(CMakePackageConfigHelpers)

get_property(layers GLOBAL PROPERTY lshformer_layers)
get_property(headers GLOBAL PROPERTY lshformer_public_headers)
list(REMOVE_ITEM layers cli)
list(FILTER headers EXCLUDE REGEX "^cli/")
if(LSHFORMER_WITH_TORCH)
  install(TARGETS lshformer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS lshformer-models RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/lshformer)
endif()

# In the tree a header is "base/error.h", installed it is "lshformer/base/error.h": a program that uses the library has no
# base/ or io/ in its include path.
install(CODE "set(SOURCE \"${PROJECT_SOURCE_DIR}/src\")
set(OUTPUT \"${PROJECT_BINARY_DIR}/public_headers\")
set(HEADERS \"${headers}\")")
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/public_headers.cmake)
install(DIRECTORY ${PROJECT_BINARY_DIR}/public_headers/lshformer ${PROJECT_BINARY_DIR}/include/lshformer
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

add_library(lshformer_all INTERFACE)
set_target_properties(lshformer_all PROPERTIES EXPORT_NAME lshformer)
target_include_directories(lshformer_all INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
foreach(layer IN LISTS layers)
  # The linker wants users of a layer before it: the highest first.
  list(PREPEND libraries lshformer_${layer})
  set_target_properties(lshformer_${layer} PROPERTIES EXPORT_NAME ${layer})
  target_include_directories(lshformer_${layer} PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
target_link_libraries(lshformer_all INTERFACE ${libraries})
install(TARGETS ${libraries} lshformer_all EXPORT lshformerTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lshformer)
install(EXPORT lshformerTargets NAMESPACE lshformer:: DESTINATION ${package})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lshformerConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/lshformerConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lshformerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lshformerConfig.cmake ${PROJECT_BINARY_DIR}/lshformerConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake DESTINATION ${package})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/lshformer)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
