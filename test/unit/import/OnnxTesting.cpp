// Building ONNX models in memory, importing and executing them.
#include "OnnxTesting.h"
#include "mlir/IR/Diagnostics.h"
#include <cstdlib>
#include <cstring>
#include <fstream>

using namespace hyc;
using namespace hyc::onnx;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "hyc-import-XXXXXX").string();
  path = mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

void TemporaryFolder::write(const std::string &name, const std::string &bytes) const {
  std::filesystem::create_directories((path / name).parent_path());
  std::ofstream(path / name, std::ios::binary) << bytes;
}

ModelBuilder::ModelBuilder(int64_t opset) {
  model.set_ir_version(8);
  model.mutable_graph()->set_name("graph");
  model.add_opset_import()->set_version(opset);
}

void ModelBuilder::input(const std::string &name, DataType type, const std::vector<Dim> &shape) {
  onnxfile::Value &value = *graph().add_input();
  value.set_name(name);
  onnxfile::TensorType &tensor = *value.mutable_type()->mutable_tensor();
  tensor.set_element_type(type);
  tensor.mutable_shape();
  for (const Dim &dim : shape) {
    onnxfile::Dimension &added = *tensor.mutable_shape()->add_dim();
    if (dim.symbol.empty())
      added.set_size(dim.size);
    else
      added.set_symbol(dim.symbol);
  }
}

void ModelBuilder::output(const std::string &name) { graph().add_output()->set_name(name); }

onnxfile::Tensor &ModelBuilder::floats(const std::string &name, const std::vector<int64_t> &shape,
                                       const std::vector<float> &values) {
  onnxfile::Tensor &tensor = *graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(kF32);
  tensor.mutable_dims()->Add(shape.begin(), shape.end());
  tensor.set_raw_data(std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float)));
  return tensor;
}

onnxfile::Tensor &ModelBuilder::integers(const std::string &name, const std::vector<int64_t> &shape,
                                         const std::vector<int64_t> &values) {
  onnxfile::Tensor &tensor = *graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(kI64);
  tensor.mutable_dims()->Add(shape.begin(), shape.end());
  tensor.set_raw_data(std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(int64_t)));
  return tensor;
}

onnxfile::Node &ModelBuilder::node(const std::string &type, const std::vector<std::string> &inputs,
                                   const std::vector<std::string> &outputs) {
  onnxfile::Node &node = *graph().add_node();
  node.set_op_type(type);
  node.set_name(outputs.empty() ? "" : outputs.front());
  for (const std::string &name : inputs)
    node.add_input(name);
  for (const std::string &name : outputs)
    node.add_output(name);
  return node;
}

static onnxfile::Attribute &addAttribute(onnxfile::Node &node, const std::string &name, int type) {
  onnxfile::Attribute &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

void ModelBuilder::setInt(onnxfile::Node &node, const std::string &name, int64_t value) {
  addAttribute(node, name, 2).set_i(value);
}

void ModelBuilder::setInts(onnxfile::Node &node, const std::string &name, const std::vector<int64_t> &values) {
  addAttribute(node, name, 7).mutable_ints()->Add(values.begin(), values.end());
}

void ModelBuilder::setFloat(onnxfile::Node &node, const std::string &name, float value) {
  addAttribute(node, name, 1).set_f(value);
}

void ModelBuilder::setText(onnxfile::Node &node, const std::string &name, const std::string &value) {
  addAttribute(node, name, 3).set_s(value);
}

void hyc::onnx::addNode(onnxfile::Graph &graph, const std::string &type, const std::vector<std::string> &inputs,
                        const std::string &output) {
  onnxfile::Node &node = *graph.add_node();
  node.set_op_type(type);
  for (const std::string &input : inputs)
    node.add_input(input);
  node.add_output(output);
}

std::string Imported::allErrors() const {
  std::string text;
  for (const std::string &error : errors)
    text += error + "\n";
  return text;
}

Imported hyc::onnx::importFile(const std::filesystem::path &path, const ImportOptions &options) {
  Imported result;
  result.context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler handler(result.context.get(), [&](mlir::Diagnostic &diagnostic) {
    bool isError = diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
    (isError ? result.errors : result.warnings).push_back(diagnostic.str());
    return mlir::success();
  });
  auto module = importOnnx(*result.context, path.string(), options);
  if (mlir::succeeded(module))
    result.module = std::move(*module);
  EXPECT_EQ(result.errors.empty(), static_cast<bool>(result.module)) << result.allErrors();
  return result;
}

Imported hyc::onnx::importBytes(const TemporaryFolder &folder, const std::string &bytes, const ImportOptions &options) {
  folder.write("model.onnx", bytes);
  return importFile(folder / "model.onnx", options);
}

Imported hyc::onnx::importModel(const ModelBuilder &model, const ImportOptions &options) {
  return importBytes(TemporaryFolder(), model.bytes(), options);
}

std::vector<interpreter::Tensor> hyc::onnx::execute(Imported &imported, llvm::ArrayRef<interpreter::Tensor> arguments,
                                                    const std::filesystem::path &folder) {
  EXPECT_TRUE(imported) << imported.allErrors();
  if (!imported)
    return {};
  interpreter::Options options;
  options.arithmetic = interpreter::Arithmetic::Wide;
  options.baseDirectory = folder.string();
  auto interpreter = interpreter::Interpreter::create(*imported.module, options);
  EXPECT_TRUE(mlir::succeeded(interpreter));
  if (mlir::failed(interpreter))
    return {};
  auto results = interpreter->call("train", arguments);
  EXPECT_TRUE(mlir::succeeded(results));
  return mlir::failed(results) ? std::vector<interpreter::Tensor>()
                               : std::vector<interpreter::Tensor>(results->begin(), results->end());
}

std::vector<double> hyc::onnx::evaluate(const ModelBuilder &model, llvm::ArrayRef<interpreter::Tensor> arguments) {
  TemporaryFolder folder;
  Imported imported = importBytes(folder, model.bytes());
  std::vector<interpreter::Tensor> results = execute(imported, arguments, folder.path);
  if (results.size() != 1)
    return {};
  std::vector<double> values;
  for (int64_t i = 0; i < results[0].getNumElements(); ++i)
    values.push_back(interpreter::isFloat(results[0].getKind()) ? results[0].getDouble(i)
                                                                : static_cast<double>(results[0].getInteger(i)));
  return values;
}

void hyc::onnx::expectError(const Imported &imported, const std::vector<std::string> &parts) {
  EXPECT_FALSE(imported);
  EXPECT_EQ(imported.errors.size(), 1u) << imported.allErrors();
  for (const std::string &part : parts)
    EXPECT_NE(imported.allErrors().find(part), std::string::npos) << "'" << part << "' in: " << imported.allErrors();
}
