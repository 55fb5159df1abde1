# Compiler and linker settings that every target of the tree shares.

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")  # assertions stay on, unlike CMake's default
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(HYC_CCACHE ccache)
if(HYC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The first two variables let equal sources hit the cache from any checkout and build folder, the others let what is
  # compiled under the precompiled header hit it too (HycMLIR.cmake writes the header's sum).
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1 ${HYC_CCACHE})
endif()

find_program(HYC_MOLD mold)
if(HYC_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Not nvcc's: it has spellings of its own (cmake/HycCuda.cmake).
foreach(flag IN ITEMS -Wall -Wextra -Wno-unused-parameter -Wimplicit-fallthrough)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${flag}>)
endforeach()
# The same value must come out of a fused and an unfused build: never contract a·b + c.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)

if(HYC_SANITIZE)
  # At -O2 a generated dialect takes the compiler 3 GB and an hour.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  foreach(flag IN ITEMS -fsanitize=${HYC_SANITIZE} -fno-sanitize-recover=all -fno-sanitize=vptr,null,object-size -fno-omit-frame-pointer)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${flag}>)
  endforeach()
  add_link_options(-fsanitize=${HYC_SANITIZE})
endif()

if(HYC_FUZZERS_ONLY)
  # MLIR is the distribution's, without instrumentation: what its allocators poison is not looked at (test/fuzz/run.sh).
  # Assertions stay on.
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")
  set(HYC_FUZZ_SANITIZERS address,undefined)
  # Of the checks that need no help to be seen (null) or cost most (object-size) a quarter of the time to compile is saved.
  add_compile_options(-fsanitize=fuzzer-no-link,${HYC_FUZZ_SANITIZERS} -fno-sanitize-recover=all
                      -fno-sanitize=vptr,function,null,object-size -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HYC_FUZZ_SANITIZERS})
  # Protobuf's headers are written for more compilers than one.
  add_compile_options(-Wno-unknown-warning-option)
endif()
