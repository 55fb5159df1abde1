// Prints what a program consists of besides functions: constexpr rows of hycrt::Program.
#ifndef HYC_LIB_TARGET_CPP_TABLEEMITTER_H
#define HYC_LIB_TARGET_CPP_TABLEEMITTER_H

#include "Names.h"
#include "hyc/Target/Cpp.h"

namespace hyc::cpp {

/// stageS.h: arenas and collectives by name.
void emitNames(rank::ProgramOp program, llvm::raw_ostream &os);

/// The tables, kProgram and main.
llvm::LogicalResult emitTables(rank::ProgramOp program, const CppOptions &options,
                               llvm::ArrayRef<std::string> modelFiles, llvm::raw_ostream &os);

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_TABLEEMITTER_H
