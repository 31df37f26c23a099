# cmake --install: the program, the headers under include/lshformer, the layers' static libraries and
# find_package(lshformer), whose target lshformer::lshformer stands for all layers below the command line.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(layers base kernels text io report data)
if(LSHFORMER_WITH_TORCH)
  list(APPEND layers ops nn models eval infer train jobs)
  install(TARGETS lshformer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

add_library(lshformer_all INTERFACE)
set_target_properties(lshformer_all PROPERTIES EXPORT_NAME lshformer)
target_include_directories(lshformer_all INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
foreach(layer IN LISTS layers)
  # The linker wants users of a layer before it: the highest first.
  list(PREPEND libraries lshformer_${layer})
  set_target_properties(lshformer_${layer} PROPERTIES EXPORT_NAME ${layer})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/${layer} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lshformer
          FILES_MATCHING PATTERN "*.h")
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
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
