// The table of all operators that hyc imports.
#include "Importer.h"

using namespace hyc::onnx;

const Operator *hyc::onnx::findOperator(const onnxfile::Node &node) {
  static const OperatorTable table = [] {
    OperatorTable result;
    addElementwiseOperators(result);
    addShapeOperators(result);
    addIndexingOperators(result);
    addContractionOperators(result);
    addReductionOperators(result);
    return result;
  }();
  if (!node.domain().empty() && node.domain() != "ai.onnx")
    return nullptr;
  auto found = table.find(node.op_type());
  return found == table.end() ? nullptr : &found->second;
}
