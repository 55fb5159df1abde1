// A graph without its loss, and with its parameters as inputs; its values by the interpreter.
#include "WriteTests.h"

#include "ModelParts.h"

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/ONNX/Import.h"
#include "hyc/Interpreter/Interpreter.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <filesystem>
#include <fstream>

using namespace hyc;
using namespace hyc::fuzzing;
using interpreter::Tensor;

static void write(const std::string &path, const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// What the loss adds is called e…; the last value before it is the output.
static void dropLoss(onnxfile::Graph &graph) {
  while (graph.node_size() > 1 && graph.node().rbegin()->output(0).front() == 'e')
    graph.mutable_node()->RemoveLast();
  graph.clear_output();
  graph.add_output()->set_name(graph.node().rbegin()->output(0));
}

/// Fixed sizes, and inputs in the place of parameters, of which forward programs know none.
static void useInputsOnly(onnxfile::Graph &graph, int64_t batch) {
  for (onnxfile::Value &value : *graph.mutable_input())
    for (onnxfile::Dimension &dim : *value.mutable_type()->mutable_tensor()->mutable_shape()->mutable_dim())
      if (dim.has_symbol()) {
        dim.clear_symbol();
        dim.set_size(batch);
      }
  for (int i = graph.initializer_size() - 1; i >= 0; --i) {
    const onnxfile::Tensor &tensor = graph.initializer(i);
    if (!isReal(tensor.data_type()))
      continue;
    addInput(graph, tensor.name(), tensor.data_type(), {tensor.dims().begin(), tensor.dims().end()});
    graph.mutable_initializer()->DeleteSubrange(i, 1);
  }
}

static onnxfile::Tensor asFile(const Tensor &tensor, int32_t type) {
  onnxfile::Tensor file;
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    values.push_back(interpreter::isFloat(tensor.getKind()) ? tensor.getDouble(i)
                                                            : static_cast<double>(tensor.getInteger(i)));
  fillTensor(file, type, tensor.getShape().vec(), values);
  return file;
}

static Tensor randomTensor(mlir::RankedTensorType type, Random &random) {
  bool isReal = mlir::isa<mlir::FloatType>(type.getElementType());
  std::vector<double> values;
  std::vector<int64_t> integers;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    values.push_back(0.125 * static_cast<double>(random.between(-12, 12)) + 0.03125);
    integers.push_back(random.below(2));
  }
  auto kind = interpreter::elementKind(type.getElementType(), interpreter::Arithmetic::AsTyped);
  return isReal ? Tensor::fromDoubles(*kind, type.getShape(), values)
                : Tensor::fromIntegers(*kind, type.getShape(), integers);
}

bool hyc::fuzzing::writeTest(const GeneratedGraph &graph, Random &random, const std::string &folder) {
  onnxfile::Model model = graph.model;
  dropLoss(*model.mutable_graph());
  useInputsOnly(*model.mutable_graph(), graph.batch);
  std::string data = folder + "/test_data_set_0";
  std::filesystem::create_directories(data);
  write(folder + "/model.onnx", model.SerializeAsString());

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) { return mlir::success(); });
  auto module = importOnnx(context, folder + "/model.onnx", {});
  if (failed(module) || !(**module).getOps<ParamOp>().empty())
    return false;
  auto function = *(**module).getOps<FuncOp>().begin();
  std::vector<Tensor> inputs;
  for (auto [index, type] : llvm::enumerate(function.getFunctionType().getInputs())) {
    auto tensor = mlir::cast<mlir::RankedTensorType>(type);
    if (!interpreter::elementKind(tensor.getElementType(), interpreter::Arithmetic::AsTyped))
      return false;
    inputs.push_back(randomTensor(tensor, random));
    int32_t stored = model.graph().input(static_cast<int>(index)).type().tensor().element_type();
    write(data + "/input_" + std::to_string(index) + ".pb", asFile(inputs.back(), stored).SerializeAsString());
  }
  auto computer = interpreter::Interpreter::create(**module);
  auto facts = importOutputs(model, graph.batch);
  if (failed(computer) || !facts)
    return false;
  auto results = computer->call("train", inputs);
  if (failed(results))
    return false;
  for (size_t i = 0; i < results->size(); ++i)
    write(data + "/output_" + std::to_string(i) + ".pb", asFile((*results)[i], (*facts)[i].type).SerializeAsString());
  return true;
}
