// What PyTorch's dynamo exporter notes beside the graph about the program that it traced: which placeholders were
// parameters, and of each node the call that it came from. Its optimizer changes nodes and drops tensors; the notes
// stay.
#ifndef HYC_LIB_IMPORT_ONNX_TRACEDPROGRAM_H
#define HYC_LIB_IMPORT_ONNX_TRACEDPROGRAM_H

#include "lib/Import/ONNX/onnx_subset.pb.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace hyc::onnx {

/// A call as it was printed; refers to the node's text.
struct TracedCall {
  llvm::StringRef target;                         ///< "aten.linear.default"
  llvm::SmallVector<llvm::StringRef> arguments{}; ///< those by position: "%p_fc1_weight", "1", "[0, 1]"
};

/// Nothing where the node has no such note, or one of another form.
std::optional<TracedCall> tracedCallOf(const onnxfile::Node &node);

/// The bias that the call had, where calls of its kind have one: as it was printed.
llvm::StringRef biasOf(const TracedCall &call);
/// The row of an embedding's table that has no gradient.
std::optional<int64_t> paddingRowOf(const TracedCall &call);

class TracedProgram {
public:
  explicit TracedProgram(const onnxfile::Graph &graph);

  /// The module's name for the parameter that an argument is; empty for every other argument.
  llvm::StringRef parameterOf(llvm::StringRef argument) const;
  /// Of the parameters that the call reads.
  llvm::SmallVector<llvm::StringRef> parametersOf(const TracedCall &call) const;
  bool isParameter(llvm::StringRef name) const { return names.contains(name); }

private:
  llvm::StringMap<llvm::StringRef> parameters; // by placeholder, of the graph's text
  llvm::StringMap<char> names;
};

} // namespace hyc::onnx

#endif // HYC_LIB_IMPORT_ONNX_TRACEDPROGRAM_H
