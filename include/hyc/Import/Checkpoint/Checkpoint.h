// A checkpoint: names, and where in which safetensors file each one's values lie. It is one file, a sharded set with
// its model.safetensors.index.json, or a folder that holds either, as Hugging Face lays them out.
#ifndef HYC_IMPORT_CHECKPOINT_CHECKPOINT_H
#define HYC_IMPORT_CHECKPOINT_CHECKPOINT_H

#include "hyc/Support/SafeTensors.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/LogicalResult.h"

#include <functional>
#include <map>

namespace hyc {

struct CheckpointTensor {
  SafeTensor stored;
  std::string file; ///< beside the other files of the checkpoint: a plain name
};

class Checkpoint {
public:
  /// Reads all headers. Of a folder, model.safetensors goes before an index, as transformers has it.
  ///
  /// Shards must be plain names in the index's own folder. Links are followed there: a hub's cache is made of them, and
  /// the user has named the folder.
  static llvm::Expected<Checkpoint> open(llvm::StringRef path);

  /// Whether a folder holds weights that `open` reads or refuses: safetensors, or the pickles of older models.
  static bool isIn(llvm::StringRef folder);

  const std::string &getPath() const { return path; }
  const std::string &getFolder() const { return folder; }
  const std::map<std::string, CheckpointTensor> &getTensors() const { return tensors; }

private:
  llvm::Error addFile(llvm::StringRef name, llvm::function_ref<bool(llvm::StringRef)> wanted);
  llvm::Error readIndex(llvm::StringRef name);

  std::string path, folder;
  std::map<std::string, CheckpointTensor> tensors;
};

/// The tensors that a parameter's values may be stored as, one after another.
struct StoredParts {
  std::vector<std::string> names;
  llvm::SmallVector<int64_t> shape; ///< of each
  std::string following;            ///< the name that one more would have, which nobody asks for
};

struct StartOptions {
  /// Files are named relative to the module's folder, not absolutely.
  bool relative = false;
  /// Parameters that the checkpoint lacks keep the initial values that they have.
  bool mayMiss = false;
  /// What the checkpoint calls a parameter, if not by its name; that is looked for first.
  std::function<std::string(llvm::StringRef)> storedName;
  /// For a parameter of this shape the tensors that it is stored as where it is not there as one; no names: none.
  std::function<StoredParts(llvm::StringRef, llvm::ArrayRef<int64_t>)> storedParts;
  /// Tensors that are known to be no parameters, such as masks; no word about them.
  std::function<bool(llvm::StringRef)> ignored;
};

/// Makes the parameters of `module` start from `checkpoint`. A tensor is found by the parameter's name; else by the one
/// name that differs from it in a prefix alone (`h.0.ln_1.bias` for `transformer.h.0.ln_1.bias`); else, for a parameter
/// that an embedding shares with another op and that therefore has two names, as the only tensor left of its shape. One
/// that is stored in parts starts from all of them, or is refused with what is wrong about the first.
///
/// Missing and misshapen tensors are one error that lists them all, each with the nearest name left over; tensors that
/// no parameter asks for are a warning.
llvm::LogicalResult startFromCheckpoint(mlir::ModuleOp module, const Checkpoint &checkpoint,
                                        const StartOptions &options = {});

} // namespace hyc

#endif // HYC_IMPORT_CHECKPOINT_CHECKPOINT_H
