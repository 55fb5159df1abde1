// The table of all operators that hyc imports.
#include "Importer.h"

using namespace hyc::onnx;

const OperatorTable &hyc::onnx::allOperators() {
  static const OperatorTable table = [] {
    OperatorTable result;
    addElementwiseOperators(result);
    addShapeOperators(result);
    addIndexingOperators(result);
    addContractionOperators(result);
    addReductionOperators(result);
    addActivationOperators(result);
    addWindowOperators(result);
    addScatterOperators(result);
    addNormalizationOperators(result);
    addLossOperators(result);
    addResizeOperators(result);
    addQuantizationOperators(result);
    addSignalOperators(result);
    addRecurrentOperators(result);
    addUpdateOperators(result);
    addRandomOperators(result);
    addSamplingOperators(result);
    addCountedOperators(result);
    addTextOperators(result);
    addSequenceOperators(result);
    addControlFlowOperators(result);
    return result;
  }();
  return table;
}

std::string hyc::onnx::nameInTable(const onnxfile::Node &node) {
  bool isStandard = node.domain().empty() || node.domain() == "ai.onnx";
  return isStandard ? node.op_type() : node.domain() + ":" + node.op_type();
}

const Operator *hyc::onnx::findOperator(const onnxfile::Node &node) {
  const OperatorTable &table = allOperators();
  auto found = table.find(nameInTable(node));
  return found == table.end() ? nullptr : &found->second;
}
