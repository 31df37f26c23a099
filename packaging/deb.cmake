# cpack -G DEB: the command line (component "program") as a Debian package. What it links is found by dpkg-shlibdeps; what it
# loads by name is not seen there and stands here.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The lshformer authors <maintainers@lshformer.invalid>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME lshformer)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS libsentencepiece0)  # text/sentence_piece/library.h
# libtorch's BLAS: any will do, this one is in the same thread pool (docs/building.md).
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libopenblas0-openmp)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "Trains, evaluates and uses BERT-class text encoders whose attention is a choice in the config.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
include(CPack)
