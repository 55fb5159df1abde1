# What HYC_PORTABLE links in the place of libMLIR and libLLVM, and what these would bring along from the machine.

# hyc has dialects of its own, and needs of MLIR only what is below all dialects.
set(HYC_STATIC_MLIR_LIBRARIES)
foreach(library IN ITEMS MLIROptLib MLIRTransforms MLIRParser MLIRPass MLIRIR MLIRSupport LLVMSupport)
  # What compiles is called as ever, so that it comes out of the cache.
  list(APPEND HYC_STATIC_MLIR_LIBRARIES $<LINK_ONLY:${library}>)
endforeach()

# LLVMSupport names what its compression and its solver need, neither of which hyc reaches: what nobody refers to is not linked.
set(ZLIB_USE_STATIC_LIBS ON)
if(NOT TARGET zstd::libzstd_shared)
  add_library(zstd::libzstd_shared INTERFACE IMPORTED GLOBAL)
endif()

# A distribution's static MLIR libraries name the shared libLLVM as what they need: here the parts of it that hyc reaches.
function(hyc_unlink_shared_llvm)
  foreach(target IN LISTS MLIR_EXPORTED_TARGETS)
    get_target_property(needed ${target} INTERFACE_LINK_LIBRARIES)
    if(needed AND "LLVM" IN_LIST needed)
      list(TRANSFORM needed REPLACE "^LLVM$" "LLVMSupport;LLVMRemarks;LLVMCore")
      set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${needed}")
    endif()
  endforeach()
endfunction()
