# Looks for what programs for GPUs are built with. HYC_CUDA says whether all of it is there; one line says what is not,
# and everything else is built without it.
#
#   HYC_CUDA_ROOT, HYC_NVCC, HYC_CUDA_INCLUDE_DIR, HYC_CUDART_LIBRARY (static), HYC_CUBLASLT_LIBRARY;
#   HYC_NCCL_LIBRARY, HYC_NCCL_INCLUDE_DIR where NCCL is there
#   CMAKE_CUDA_ARCHITECTURES      what hyc's own kernels are compiled for; 80 runs on 86 and 89 too
option(HYC_WITH_CUDA "Build the CUDA target where a CUDA toolkit is there" ON)
set(HYC_CUDA OFF)
set(HYC_CUDA_FLAGS --expt-relaxed-constexpr -fmad=false -Xcompiler=-Wall,-ffp-contract=off)
if(NOT HYC_WITH_CUDA)
  return()
endif()

find_program(HYC_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT HYC_NVCC)
  message(STATUS "CUDA: nvcc was not found, so --target cuda is left out (install the CUDA toolkit, or set CUDA_HOME)")
  return()
endif()
get_filename_component(HYC_CUDA_ROOT ${HYC_NVCC} REALPATH)
get_filename_component(HYC_CUDA_ROOT ${HYC_CUDA_ROOT}/../.. ABSOLUTE)
set(HYC_CUDA_LIBRARY_FOLDERS ${HYC_CUDA_ROOT}/lib64 ${HYC_CUDA_ROOT}/lib ${HYC_CUDA_ROOT}/targets/x86_64-linux/lib)
find_path(HYC_CUDA_INCLUDE_DIR cuda_runtime.h HINTS ${HYC_CUDA_ROOT}/include ${HYC_CUDA_ROOT}/targets/x86_64-linux/include)
find_library(HYC_CUDART_LIBRARY NAMES libcudart_static.a HINTS ${HYC_CUDA_LIBRARY_FOLDERS})
find_library(HYC_CUBLASLT_LIBRARY cublasLt HINTS ${HYC_CUDA_LIBRARY_FOLDERS})
find_library(HYC_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${HYC_CUDA_LIBRARY_FOLDERS})
find_path(HYC_NCCL_INCLUDE_DIR nccl.h HINTS ${HYC_CUDA_INCLUDE_DIR})

set(missing)
foreach(part IN ITEMS HYC_CUDA_INCLUDE_DIR HYC_CUDART_LIBRARY HYC_CUBLASLT_LIBRARY)
  if(NOT ${part})
    string(REGEX REPLACE "HYC_(.*)_(LIBRARY|INCLUDE_DIR)" "\\1 (\\2)" name ${part})
    list(APPEND missing ${name})
  endif()
endforeach()
if(missing)
  list(JOIN missing ", " missing)
  message(STATUS "CUDA: ${HYC_CUDA_ROOT} lacks ${missing}, so --target cuda is left out")
  return()
endif()

# The toolkit does not bring NCCL along.
if(NOT HYC_NCCL_LIBRARY OR NOT HYC_NCCL_INCLUDE_DIR)
  set(HYC_NCCL_LIBRARY "")
  message(STATUS "CUDA: NCCL was not found, so ranks of GPU programs exchange by --comm shm alone (install libnccl-dev)")
endif()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real)
endif()
set(CMAKE_CUDA_COMPILER ${HYC_NVCC})
if(HYC_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 17)
set(HYC_CUDA ON)
