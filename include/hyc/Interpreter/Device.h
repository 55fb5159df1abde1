// Device: what one simulated rank owns: its parameters and states, the arithmetic it computes in, and its coordinates.
//
// Wide arithmetic gives every floating-point value of the program, states included, as f64 whatever its type says, so
// that two programs which differ in the order of sums can be compared to 1e-9. Initial values are rounded as typed
// first: both arithmetics start from the same numbers.
#ifndef HYC_INTERPRETER_DEVICE_H
#define HYC_INTERPRETER_DEVICE_H

#include "hyc/Interpreter/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <string>

namespace hyc::interpreter {

enum class Arithmetic {
  AsTyped, ///< every op rounds its results to their element type
  Wide,    ///< f64 everywhere
};

struct Options {
  Arithmetic arithmetic = Arithmetic::AsTyped;
  /// What relative paths of #hyc.file start from; empty means the module's `hyc.model_folder`, else the working
  /// directory.
  std::string baseDirectory = {};
  /// Of #hyc.normal.
  uint64_t seed = 0;
};

/// How values of `elementType` are kept; nothing where the interpreter knows no such elements.
std::optional<ElementKind> elementKind(mlir::Type elementType, Arithmetic arithmetic);

/// One mesh axis as one rank sees it.
struct AxisPosition {
  int64_t coordinate = 0;
  int64_t size = 1;
};

/// By symbol name, or by the name of an input.
using NamedTensors = llvm::StringMap<Tensor>;

/// A copy of a state that was fetched from where it is kept.
struct StateCopy {
  Tensor value;
  std::string place;    ///< "device" or "host"
  bool isShard = false; ///< of a state that is kept whole: only this rank's flat shard of it
};

struct Device {
  Options options;
  NamedTensors states; ///< params and states by symbol name
  /// States that were accumulated into since the step began: the next accumulation adds.
  llvm::StringSet<> accumulated;
  /// Empty where there is no mesh.
  llvm::StringMap<AxisPosition> axes;

  // Offload (phase 4).
  llvm::StringMap<std::string> homes; ///< of states that are not kept on the device: "host", "nvme"
  llvm::StringMap<StateCopy> copies;  ///< until the function's end
  llvm::StringSet<> fetched;          ///< started, not waited for
  llvm::StringMap<StateCopy> evicted; ///< started, not waited for: what is on its way back
};

} // namespace hyc::interpreter

#endif // HYC_INTERPRETER_DEVICE_H
