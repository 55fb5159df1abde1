// torch.cond, scan, map and while_loop: each becomes ONNX's operator of its kind, around graphs that have been written
// by the time it is their turn (Program.h says how they lie among the nodes).
#include "Translator.h"

#include "llvm/ADT/StringMap.h"

using namespace hyc::torchexport;

namespace {
void chooseBranch(NodeTranslation &node) {
  node.emitWithBodies("If", {node.operand("0", ScalarType::Bool)}, {}, {"then_branch", "else_branch"});
}

/// What is carried, then what is gone through along dimension 0.
void scan(NodeTranslation &node) {
  std::vector<Name> inputs = node.tensors("1"), given = node.tensors("2");
  const auto count = static_cast<int64_t>(given.size());
  inputs.insert(inputs.end(), given.begin(), given.end());
  node.emitWithBodies("Scan", inputs, {{{"num_scan_inputs", count}}}, {"body"});
}

/// The same, with nothing carried.
void mapOver(NodeTranslation &node) {
  std::vector<Name> given = node.tensors("1");
  node.emitWithBodies("Scan", given, {{{"num_scan_inputs", static_cast<int64_t>(given.size())}}}, {"body"});
}

/// A loop's graph is given the number of its step and whether it goes on, of which torch's knows nothing.
void loop(NodeTranslation &node) {
  std::vector<Name> inputs{"", node.condition()}, carried = node.tensors("2");
  inputs.insert(inputs.end(), carried.begin(), carried.end());
  node.emitWithBodies("Loop", inputs, {}, {"body"});
}
} // namespace

Translation hyc::torchexport::findControlFlow(llvm::StringRef target) {
  static const llvm::StringMap<Translation> table = {{"higher_order.cond", chooseBranch},
                                                     {"higher_order.scan", scan},
                                                     {"higher_order.map_impl", mapOver},
                                                     {"higher_order.while_loop", loop}};
  return table.lookup(target);
}
