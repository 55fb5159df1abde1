// A graph in ONNX's operators that another front end has put together, to be imported as a file would be.
#ifndef HYC_LIB_IMPORT_ONNX_ASSEMBLEDMODEL_H
#define HYC_LIB_IMPORT_ONNX_ASSEMBLEDMODEL_H

#include "WireCheck.h"
#include "hyc/Import/ONNX/Import.h"
#include "lib/Import/ONNX/onnx_subset.pb.h"

#include <vector>

namespace hyc::onnx {

/// The operator set in which such graphs are written.
inline constexpr int64_t kAssembledOpset = 21;

/// Metadata that says what an initializer is ("PARAMETER", "BUFFER"), on the value_info of its name.
inline constexpr llvm::StringLiteral kInputKind = "pkg.torch.export.graph_signature.InputSpec.kind";
/// What kInputKind says of a tensor that the model itself replaces when it runs. It is a parameter that no gradient
/// trains, whatever its element type.
inline constexpr llvm::StringLiteral kStateKind = "STATE";
/// What kInputKind says of a parameter that the model's author has excluded from training.
inline constexpr llvm::StringLiteral kFrozenKind = "FROZEN";
/// Metadata beside kStateKind: the graph's name of the value that the tensor has for the next run.
inline constexpr llvm::StringLiteral kNextValue = "hyc.next_value";
/// Attribute of BatchNormalization: whether the running average of the variance is that of the unbiased one, as in
/// PyTorch. ONNX's own is not.
inline constexpr llvm::StringLiteral kUnbiasedAverage = "hyc_unbiased_average";
/// Attribute of Gather over a table's rows: the row that has no gradient.
inline constexpr llvm::StringLiteral kPaddingRow = "hyc_padding_row";
/// Attribute of Gather over a table's rows: 1 where PyTorch refuses what is below 0, which ONNX counts from the end.
inline constexpr llvm::StringLiteral kCountsFromFront = "hyc_counts_from_front";
/// The operator, of a domain of hyc's own, that keeps the gradient from its operand.
inline constexpr llvm::StringLiteral kStopGradient = "hyc:StopGradient";
/// Operators of the same domain: the logarithm of the gamma function, and its derivative.
inline constexpr llvm::StringLiteral kLogGamma = "hyc:LogGamma", kDigamma = "hyc:Digamma";
/// The operator, of the same domain, that multiplies each row (N,K) by the matrix (E,K,M) of its expert (N).
inline constexpr llvm::StringLiteral kExpertMatMul = "hyc:ExpertMatMul";
/// The operator, of the same domain, that is one direction of a recurrent layer with torch's weights: of x (T,B,I), w
/// (G·H, I), r (G·H, S), biases (G·H) of both, h (B,S), c (B,H) and a projection (S,H), the last five optional.
/// Attributes are `kind` (lstm, gru, rnn_tanh, rnn_relu), `time`, the dimension of x that steps are along, or -1 for
/// one step, and `reverse`. It gives all states, the last one, and the LSTM's last cell.
inline constexpr llvm::StringLiteral kRecurrence = "hyc:Recurrence";
/// Metadata that says which module a node belongs to: a list, the path before the last.
inline constexpr llvm::StringLiteral kNameScopes = "pkg.torch.onnx.name_scopes";

struct AssembledModel {
  onnxfile::Model model;
  std::unique_ptr<llvm::MemoryBuffer> file; ///< the file that is imported
  std::vector<ByteRange> values;            ///< of the graph's initializers, in order, in that file
};

/// Imports `model`, whose initializers' values lie in `path`; messages name that file.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importAssembled(mlir::MLIRContext &context, llvm::StringRef path,
                                                                   AssembledModel model, const ImportOptions &options);

} // namespace hyc::onnx

#endif // HYC_LIB_IMPORT_ONNX_ASSEMBLEDMODEL_H
