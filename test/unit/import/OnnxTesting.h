// What the importer's tests share: ONNX models built in memory, imported from a folder of their own, and executed.
#ifndef HYC_TEST_UNIT_IMPORT_ONNXTESTING_H
#define HYC_TEST_UNIT_IMPORT_ONNXTESTING_H

#include "hyc/Import/ONNX/Import.h"
#include "hyc/Interpreter/Interpreter.h"
#include "lib/Import/ONNX/onnx_subset.pb.h"
#include "mlir/IR/MLIRContext.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace hyc::onnx {

// Data types, by the format's numbers.
enum DataType { kF32 = 1, kI32 = 6, kI64 = 7, kBool = 9 };

/// A folder that is gone after the test.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::filesystem::path operator/(const std::string &name) const { return path / name; }
  void write(const std::string &name, const std::string &bytes) const;

  std::filesystem::path path;
};

/// Builds one graph. Names of nodes are the names of their first output.
class ModelBuilder {
public:
  explicit ModelBuilder(int64_t opset = 18);

  /// A dimension given as a name is symbolic.
  struct Dim {
    Dim(int size) : size(size) {}
    Dim(const char *symbol) : symbol(symbol) {}
    int64_t size = -1;
    std::string symbol;
  };

  void input(const std::string &name, DataType type, const std::vector<Dim> &shape);
  void output(const std::string &name);
  onnxfile::Tensor &floats(const std::string &name, const std::vector<int64_t> &shape,
                           const std::vector<float> &values);
  onnxfile::Tensor &integers(const std::string &name, const std::vector<int64_t> &shape,
                             const std::vector<int64_t> &values);
  onnxfile::Node &node(const std::string &type, const std::vector<std::string> &inputs,
                       const std::vector<std::string> &outputs);
  static void setInt(onnxfile::Node &node, const std::string &name, int64_t value);
  static void setInts(onnxfile::Node &node, const std::string &name, const std::vector<int64_t> &values);
  static void setFloat(onnxfile::Node &node, const std::string &name, float value);
  static void setText(onnxfile::Node &node, const std::string &name, const std::string &value);

  std::string bytes() const { return model.SerializeAsString(); }
  onnxfile::Graph &graph() { return *model.mutable_graph(); }

  onnxfile::Model model;
};

/// Adds a node of one output to a graph within the graph.
void addNode(onnxfile::Graph &graph, const std::string &type, const std::vector<std::string> &inputs,
             const std::string &output);

/// The outcome of an import: a module, or what was said instead.
struct Imported {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<std::string> errors, warnings;

  explicit operator bool() const { return static_cast<bool>(module); }
  /// All errors, one a line.
  std::string allErrors() const;
};

Imported importFile(const std::filesystem::path &path, const ImportOptions &options = {});
/// Writes the bytes as model.onnx into `folder` and imports that.
Imported importBytes(const TemporaryFolder &folder, const std::string &bytes, const ImportOptions &options = {});
Imported importModel(const ModelBuilder &model, const ImportOptions &options = {});

/// The results of the imported function, computed in f64.
std::vector<interpreter::Tensor> execute(Imported &imported, llvm::ArrayRef<interpreter::Tensor> arguments,
                                         const std::filesystem::path &folder = ".");

/// The only result of a model without inputs that are not constant, computed while importing or afterwards.
std::vector<double> evaluate(const ModelBuilder &model, llvm::ArrayRef<interpreter::Tensor> arguments = {});

/// Expects an import to fail with exactly one error, which contains all of `parts`.
void expectError(const Imported &imported, const std::vector<std::string> &parts);

} // namespace hyc::onnx

#endif // HYC_TEST_UNIT_IMPORT_ONNXTESTING_H
