# MLIR, its TableGen, and the helpers that give dialects, libraries and lit suites one shape each.

set(HYC_MLIR_VERSION 22.1)  # the one place where LLVM's version is pinned; MLIR's config wants major.minor

find_program(HYC_LLVM_CONFIG NAMES llvm-config-22 REQUIRED)
execute_process(COMMAND ${HYC_LLVM_CONFIG} --prefix OUTPUT_VARIABLE HYC_LLVM_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE)
if(HYC_PORTABLE)
  include(HycStaticMLIR)
endif()
find_package(MLIR ${HYC_MLIR_VERSION} REQUIRED CONFIG HINTS ${HYC_LLVM_PREFIX})
if(HYC_PORTABLE)
  hyc_unlink_shared_llvm()
endif()
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

set(HYC_LLVM_TOOLS_DIR ${LLVM_TOOLS_BINARY_DIR})
if(NOT HYC_PORTABLE)
  # libMLIR and libLLVM lie outside the loader's path.
  list(APPEND CMAKE_BUILD_RPATH ${LLVM_LIBRARY_DIR})
  list(APPEND CMAKE_INSTALL_RPATH ${LLVM_LIBRARY_DIR})
endif()

add_library(hyc_mlir INTERFACE)
target_include_directories(hyc_mlir SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_include_directories(hyc_mlir INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
separate_arguments(HYC_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(hyc_mlir INTERFACE ${HYC_LLVM_DEFINITIONS} -fno-exceptions)
# Only the shared libraries, or only static ones: in both, every option would be registered twice.
if(HYC_PORTABLE)
  target_link_libraries(hyc_mlir INTERFACE ${HYC_STATIC_MLIR_LIBRARIES})
else()
  target_link_libraries(hyc_mlir INTERFACE MLIR LLVM)
endif()

# hyc_tablegen(TARGET td-file  output generator-flags…): one generated file, collected under TARGET.
function(hyc_tablegen target td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  set(rest ${ARGN})
  while(rest)
    list(POP_FRONT rest output flags)
    separate_arguments(flags)
    mlir_tablegen(${output} ${flags} EXTRA_INCLUDES ${MLIR_INCLUDE_DIRS} ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  endwhile()
  add_public_tablegen_target(${target})
endfunction()

add_custom_target(hyc_tablegen_all)

# MLIR's and the dialects' headers, parsed once: they are more than half of what a file of the compiler takes to compile.
# Sources name what they include all the same: -DHYC_PRECOMPILED_HEADER=OFF must build.
option(HYC_PRECOMPILED_HEADER "Parse the headers of MLIR and of the dialects once for all libraries" ON)
if(HYC_PRECOMPILED_HEADER)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    # As for GCC. CMake's own words hand both files through -Xclang, where ccache leaves their folders in what it compares.
    set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include <PCH_HEADER>)
  endif()
  set(pch_source ${PROJECT_SOURCE_DIR}/cmake/Precompiled.h)
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled/precompiled.cpp.new "")
  file(COPY_FILE ${PROJECT_BINARY_DIR}/precompiled/precompiled.cpp.new ${PROJECT_BINARY_DIR}/precompiled/precompiled.cpp ONLY_IF_DIFFERENT)
  add_library(hyc_precompiled STATIC ${PROJECT_BINARY_DIR}/precompiled/precompiled.cpp)
  target_link_libraries(hyc_precompiled PRIVATE hyc_mlir)
  target_precompile_headers(hyc_precompiled PRIVATE ${pch_source})
  # Not by ccache: beside a header that was precompiled before it would take that one's sum, below, for what is compiled.
  set_property(TARGET hyc_precompiled PROPERTY CXX_COMPILER_LAUNCHER)
  add_dependencies(hyc_precompiled hyc_tablegen_all)
  # ccache takes this sum for the header's contents: equal text has an equal sum in every folder.
  set(pch_suffix gch)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    set(pch_suffix pch)
  endif()
  set(pch_binary ${PROJECT_BINARY_DIR}/CMakeFiles/hyc_precompiled.dir/cmake_pch.hxx.${pch_suffix})
  string(TOUPPER "${CMAKE_BUILD_TYPE}" pch_build_type)
  separate_arguments(pch_flags NATIVE_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${pch_build_type}}")
  add_custom_command(OUTPUT ${pch_binary}.sum DEPENDS ${pch_binary} COMMAND_EXPAND_LISTS VERBATIM
    COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/precompiled-sum.sh ${pch_binary}.sum ${CMAKE_CXX_COMPILER} ${pch_flags}
            -std=c++17 -w -fmacro-prefix-map=${PROJECT_SOURCE_DIR}=
            "-I$<JOIN:$<TARGET_PROPERTY:hyc_precompiled,INCLUDE_DIRECTORIES>,;-I>"
            "$<TARGET_PROPERTY:hyc_precompiled,COMPILE_OPTIONS>" -x c++ ${pch_source})
  add_custom_target(hyc_precompiled_sum DEPENDS ${pch_binary}.sum)
  add_dependencies(hyc_precompiled_sum hyc_precompiled)
endif()

# hyc_use_precompiled_header(target): for what is compiled as the libraries are, tests of the compiler among it: without, such
# a test is parsed for twice as long as all else takes.
function(hyc_use_precompiled_header target)
  if(HYC_PRECOMPILED_HEADER)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE) # as the header was: -fPIC, not -fPIE, and without what comes with the runtime's libraries
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      get_target_property(sources ${target} SOURCES)
      set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS -fPIC -fno-openmp -Wno-dangling-else)
    endif()
    target_precompile_headers(${target} REUSE_FROM hyc_precompiled)
    add_dependencies(${target} hyc_precompiled_sum)
  endif()
endfunction()

# add_hyc_library(Name sources… LINK libraries… DEPENDS targets…): one library a folder, links named. PLAIN: few of its
# sources include the dialects, so that it does without the precompiled header.
function(add_hyc_library name)
  cmake_parse_arguments(ARG "PLAIN" "" "LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC hyc_mlir ${ARG_LINK})
  add_dependencies(${name} hyc_tablegen_all ${ARG_DEPENDS})
  if(NOT ARG_PLAIN)
    hyc_use_precompiled_header(${name})
  endif()
endfunction()

# hyc_generated_sources(sources…): what is mostly TableGen's work is not what fuzzing and sanitizers look at, and instrumented would take
# minutes a file.
function(hyc_generated_sources)
  if(HYC_FUZZERS_ONLY OR HYC_SANITIZE)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "-fno-sanitize=all;-O0;-g0")
  endif()
endfunction()

# add_hyc_passes(Phase): Passes.h.inc from this folder's Passes.td, with register<Phase>Passes().
function(add_hyc_passes phase)
  hyc_tablegen(Hyc${phase}PassesIncGen Passes.td Passes.h.inc "-gen-pass-decls -name ${phase}")
  add_dependencies(hyc_tablegen_all Hyc${phase}PassesIncGen)
endfunction()

# hyc_dialect_doc(Name td-file dialect): build/docs/Name.md, part of the target hyc-docs.
add_custom_target(hyc-docs)
function(hyc_dialect_doc name td dialect)
  set(output ${PROJECT_BINARY_DIR}/docs/${name}.md)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/docs
    COMMAND ${HYC_LLVM_TOOLS_DIR}/mlir-tblgen -gen-dialect-doc -dialect=${dialect}
            -I ${MLIR_INCLUDE_DIRS} -I ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${td} -o ${output}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${td} VERBATIM)
  add_custom_target(hyc-docs-${name} DEPENDS ${output})
  add_dependencies(hyc-docs hyc-docs-${name})
endfunction()

include(HycKernelDescriptions)
