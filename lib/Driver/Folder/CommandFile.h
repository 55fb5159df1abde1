// CommandFile: what hyc-compile was told when it made a folder, in command.json, so that a layout can be looked for
// again by whoever has the folder alone:
//
//   {"format_version": 1, "input": "/models/gpt2.onnx",
//    "settings": {"loss": "cross_entropy", "tp": 2, "dim": ["batch=8"]}}
//
// Settings are flags that were typed, by their names, with values of their types. Paths are absolute. What says where
// the result goes, or how far to compile, is not there.
#ifndef HYC_LIB_DRIVER_FOLDER_COMMANDFILE_H
#define HYC_LIB_DRIVER_FOLDER_COMMANDFILE_H

#include "hyc/Plan/CompileOptions.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace hyc {

inline constexpr const char *kCommandName = "command.json";

/// `asked`: the options of a compilation before anything was settled.
std::string writeCommand(const CompileOptions &asked);

/// That of `folder`: settings of Origin::Flag. Errors name line and column (65), or tell that there is none (74).
llvm::Expected<CompileOptions> readCommand(const std::string &folder);

/// The model and the flags, as a command line has them: one word each, "--flag=value".
std::vector<std::string> argumentsOf(const CompileOptions &options);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FOLDER_COMMANDFILE_H
