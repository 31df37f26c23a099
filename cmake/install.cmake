# cmake --install: the program (component "program"), and for programs of one's own (component "development") the headers under
# include/lshformer, the library in both forms, find_package(lshformer) with its targets lshformer::lshformer (the archive) and
# lshformer::shared, and lshformer.pc.
include(CMakePackageConfigHelpers)
include(${CMAKE_CURRENT_LIST_DIR}/door.cmake)

if(TARGET lshformer)
  install(TARGETS lshformer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(TARGETS lshformer-models RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/lshformer COMPONENT program)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/lshformer COMPONENT program)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# The door, as far as its layers are built.
set(door "")
while(LSHFORMER_DOOR)
  list(POP_FRONT LSHFORMER_DOOR name path)
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/src/${path})
    message(FATAL_ERROR "cmake/door.cmake: ${name} is ${path}, which is no path below src/")
  endif()
  string(REGEX REPLACE "/.*" "" layer ${path})
  if(layer IN_LIST LSHFORMER_LIBRARY_LAYERS)
    list(APPEND door ${name} ${path})
  endif()
endwhile()
# In the tree a header is "infer/pipeline.h", installed it is "lshformer/pipeline.h": a program that uses the library has no
# base/ or io/ in its include path, and rooms can be moved without its notice.
install(CODE "set(SOURCE \"${PROJECT_SOURCE_DIR}/src\")
set(OUTPUT \"${PROJECT_BINARY_DIR}/public_headers\")
set(DOOR \"${door}\")" COMPONENT development)
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/public_headers.cmake COMPONENT development)
install(DIRECTORY ${PROJECT_BINARY_DIR}/public_headers/lshformer ${PROJECT_BINARY_DIR}/include/lshformer
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

install(TARGETS lshformer_static lshformer_shared EXPORT lshformerTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lshformer)
install(EXPORT lshformerTargets NAMESPACE lshformer:: DESTINATION ${package} COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lshformerConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/lshformerConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lshformerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lshformerConfig.cmake ${PROJECT_BINARY_DIR}/lshformerConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake DESTINATION ${package} COMPONENT development)

# pkg-config: what headers include is linked with either form, all else with the archive alone (pkg-config --static).
set(pc_cflags "")
set(pc_libs "")
set(pc_private "")
if("libtorch" IN_LIST LSHFORMER_LIBRARY_PACKAGES)
  # -idirafter: upstream's folder holds other versions of libraries that are linked.
  set(pc_cflags " -I${TORCH_API_INCLUDE_DIR} -idirafter ${TORCH_INCLUDE_DIR}")
  get_filename_component(folder "${TORCH_CPU_LIBRARY}" DIRECTORY)
  set(pc_libs " -L${folder} -ltorch_cpu -lc10")
endif()
foreach(library "${HWY_LIBRARY}" "${DNNL_LIBRARY}" ${ZLIB_LIBRARIES} ${ICU_LIBRARIES})
  if(library)
    string(APPEND pc_private " ${library}")
  endif()
endforeach()
if(LSHFORMER_THREADS STREQUAL "openmp")
  string(APPEND pc_private " ${OpenMP_CXX_FLAGS}")
endif()
string(APPEND pc_private " -l${CMAKE_DL_LIBS} -pthread")
file(RELATIVE_PATH prefix_from_pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/lshformer.pc.in ${PROJECT_BINARY_DIR}/lshformer.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lshformer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
