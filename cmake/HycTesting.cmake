# Test targets: `check-hyc-lit` runs the text tests, `check-hyc-quick` what takes under three minutes, `check-hyc` all.

if(HYC_BUILD_COMPILER)
  # The lit of the LLVM packages; its default path in their CMake files does not exist.
  find_program(HYC_LIT NAMES lit HINTS ${HYC_LLVM_TOOLS_DIR} NO_DEFAULT_PATH REQUIRED)
endif()

# add_hyc_lit_suite(name folder DEPENDS targets…): the .mlir and .test files under `folder` as one CTest test.
function(add_hyc_lit_suite name folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  configure_file(${CMAKE_CURRENT_SOURCE_DIR}/lit.site.cfg.py.in ${CMAKE_CURRENT_BINARY_DIR}/lit.site.cfg.py @ONLY)
  add_test(NAME ${name} COMMAND ${HYC_LIT} -sv ${CMAKE_CURRENT_BINARY_DIR}/${folder})
  set_tests_properties(${name} PROPERTIES LABELS quick COST 90)
  add_custom_target(check-hyc-${name} COMMAND ${HYC_LIT} -sv ${CMAKE_CURRENT_BINARY_DIR}/${folder}
                    DEPENDS ${ARG_DEPENDS} USES_TERMINAL)
endfunction()

# Only the quick ones side by side: the others start as many ranks as there are cores by themselves.
include(ProcessorCount)
ProcessorCount(HYC_CORES)
add_custom_target(check-hyc-quick
  COMMAND ${CMAKE_CTEST_COMMAND} --output-on-failure -L quick -LE "^long$" --parallel ${HYC_CORES} USES_TERMINAL)
add_custom_target(check-hyc COMMAND ${CMAKE_CTEST_COMMAND} --output-on-failure -LE "^long$" USES_TERMINAL)
