# Install rules: tools, the runtime that generated programs link, and the CMake package that finds it.
#
#   bin/hyc-opt, hyc-compile, hyc-run, hyc-checkpoint, hyc-bench, hyc-check     lib/libhycrt.a, libhyc_kernels.a
#   include/hycrt, include/kernels        lib/cmake/hyc: find_package(hyc) gives hyc::hycrt and hyc::kernels
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(hyc_kernels PROPERTIES EXPORT_NAME kernels)
target_include_directories(hyc_kernels INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(HYC_CUDA_TARGETS)
if(HYC_CUDA)
  set_target_properties(hyc_kernels_cuda PROPERTIES EXPORT_NAME kernels_cuda)
  set(HYC_CUDA_TARGETS hycrt_cuda hyc_kernels_cuda)
endif()
install(TARGETS hycrt hyc_kernels ${HYC_CUDA_TARGETS} EXPORT hycTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY runtime/include/hycrt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
# What only the compiler reads stays out: descriptions, and the references that its interpreter executes.
install(DIRECTORY kernels DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN "description*.h" EXCLUDE PATTERN "reference*.h" EXCLUDE)

foreach(tool IN ITEMS hyc-bench hyc-bench-cuda hyc-check hyc-checkpoint hyc-run hyc-opt hyc-compile)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

# With HYC_PORTABLE, what programs link beside these: static as it is, shared under the name by which it is looked for.
if(HYC_PORTABLE)
  set(taken ${OPENSSL_SSL_LIBRARY} ${OPENSSL_CRYPTO_LIBRARY} ${HYC_URING_LIBRARY})
  foreach(library IN LISTS taken)
    get_filename_component(name ${library} NAME)
    get_filename_component(file ${library} REALPATH)
    execute_process(COMMAND sh -c "objdump -p '${file}' 2>/dev/null | sed -n 's/.*SONAME *//p'" OUTPUT_VARIABLE soname
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(soname)
      set(name ${soname})
    endif()
    install(FILES ${file} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME ${name})
  endforeach()
endif()

install(DIRECTORY share/machines DESTINATION ${CMAKE_INSTALL_DATADIR}/hyc FILES_MATCHING PATTERN "*.json")

set(HYC_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/hyc)
install(EXPORT hycTargets NAMESPACE hyc:: DESTINATION ${HYC_PACKAGE_DIR})
configure_package_config_file(cmake/hycConfig.cmake.in ${CMAKE_BINARY_DIR}/hycConfig.cmake
  INSTALL_DESTINATION ${HYC_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/hycConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/hycConfig.cmake ${CMAKE_BINARY_DIR}/hycConfigVersion.cmake DESTINATION ${HYC_PACKAGE_DIR})
