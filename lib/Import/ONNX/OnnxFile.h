// An ONNX file, decoded and checked by itself: sizes of tensors, encodings of names, where values are stored. What the
// nodes mean is not looked at here. The bytes of weights stay in the file.
#ifndef HYC_IMPORT_ONNX_ONNXFILE_H
#define HYC_IMPORT_ONNX_ONNXFILE_H

#include "AssembledModel.h"
#include "WireCheck.h"
#include "hyc/Analysis/HostTensor.h"
#include "lib/Import/ONNX/onnx_subset.pb.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>

namespace hyc::onnx {

/// The versions of the standard operators that are read. What an operator meant before its newest version is in its own
/// import, as far as exporters of the last years wrote it; a form that is older still is refused there.
inline constexpr int64_t kOldestOpset = 1, kNewestOpset = 23;

/// Where the row-major little-endian values of a tensor lie.
struct StoredValues {
  std::string file;    // relative to the model's folder
  int64_t offset = 0;  // in bytes
  bool absent = false; // external, and the file does not exist
};

/// What a file holds that is no single tensor: a list, or an optional value, with no tensor where it is not there.
struct GivenValue {
  bool isList = false;
  std::vector<HostTensor> tensors;
};

/// How one initializer lies over another, of which it may be a slice.
struct Overlap {
  int64_t dim = 0, offset = 0; // from where on in the other
  bool isWithin = false;       // and not only with an end
};

class OnnxFile {
public:
  /// Reads and checks `path`; reports what is wrong and returns null.
  static std::unique_ptr<OnnxFile> load(mlir::MLIRContext *context, llvm::StringRef path);

  /// A model that is not the contents of `path`, only its values are; checks it as `load` does.
  static std::unique_ptr<OnnxFile> assemble(mlir::MLIRContext *context, llvm::StringRef path, AssembledModel assembled);

  const onnxfile::Model &getModel() const { return model; }
  const onnxfile::Graph &getGraph() const { return model.graph(); }
  /// The file as a location, for what has no better one.
  mlir::Location getLoc() const { return loc; }
  mlir::Location getLoc(llvm::StringRef name) const;
  llvm::StringRef getFolder() const { return folder; }
  /// The version of the standard operators, or 0 if none is imported.
  int64_t getOpset() const { return opset; }
  /// Whether hyc wrote it, out of another format: attributes of hyc's own may be among it.
  bool isAssembled() const { return assembled; }

  /// The element type of a data_type number, or null.
  static mlir::Type getElementType(mlir::MLIRContext *context, int32_t dataType);
  /// A data type that hyc does not support, and those that it does: "data type 8 (STRING), expected …".
  static std::string describeDataType(int64_t dataType);

  /// Where the values of the main graph's `index`-th initializer are stored; null where they are written out in a way
  /// that cannot be referred to (read them with `readInitializer`).
  std::optional<StoredValues> locateInitializer(int index) const;
  /// The values of the main graph's `index`-th initializer; fails with a diagnostic if they cannot be read.
  std::optional<HostTensor> readInitializer(int index) const;
  /// The values of a tensor that is not an initializer of the main graph.
  std::optional<HostTensor> readTensor(const onnxfile::Tensor &tensor) const;
  /// The values of a file that holds one tensor and nothing else.
  std::optional<HostTensor> readTensorFile(llvm::StringRef path) const;
  /// The list of tensors, or the optional value, that a file holds and nothing else.
  std::optional<GivenValue> readValueFile(llvm::StringRef path, bool isOptional) const;
  /// Whether one initializer holds the bytes of another, transposed: an exporter's copy of a tied weight.
  bool initializerIsTransposeOf(int left, int right) const;
  /// Whether two initializers have the same type and bytes.
  bool initializersAreEqual(int left, int right) const;
  /// Where the bytes of `part` are those of `whole`, along the dimension in which their sizes differ. Nothing where
  /// they are nowhere, in several places, or of one value, which tells nothing.
  std::optional<Overlap> findOverlap(int whole, int part) const;
  /// Whether an initializer has the same bytes all along a dimension, all before which are of size 1 or have, too.
  bool initializerRepeats(int index, int dim) const;

private:
  OnnxFile(mlir::MLIRContext *context, llvm::StringRef path);
  bool decode(const ModelBytes &parts);
  bool checkVersions();
  bool checkNames() const;
  bool checkTensors();
  bool checkNestedTensor(const onnxfile::Tensor &tensor) const;
  /// `bytes` for initializers, which are not decoded; `place` is set where the values can be referred to.
  bool checkTensor(const onnxfile::Tensor &tensor, const InitializerBytes *bytes,
                   std::optional<StoredValues> &place) const;
  bool checkExternal(const onnxfile::Tensor &tensor, uint64_t needed, StoredValues &result) const;
  /// The bytes of a located initializer; null if the file that holds them is absent.
  std::unique_ptr<llvm::MemoryBuffer> mapValues(int index) const;

  mlir::MLIRContext *context;
  mlir::Location loc;
  std::string folder, fileName;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  ModelBytes parts;
  onnxfile::Model model;
  llvm::SmallVector<std::optional<StoredValues>, 0> stored; // one an initializer
  int64_t opset = 0;
  bool assembled = false;
};

} // namespace hyc::onnx

#endif // HYC_IMPORT_ONNX_ONNXFILE_H
