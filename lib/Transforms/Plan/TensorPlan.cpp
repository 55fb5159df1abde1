// Patterns are matched with the names of parameters; which of their dimensions are inputs and outputs, the ops that
// read them tell.
#include "TensorPlan.h"

#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Support/NamePattern.h"

using namespace mlir;
using namespace hyc;

/// `model.layers.*.mlp` as a pattern of the names of its parameters; a `*` is one part of a name.
static llvm::Expected<NamePattern> parametersOf(StringRef module) {
  std::string text = "^";
  for (char c : module)
    text += c == '*' ? "[^.]+" : NamePattern::escape(StringRef(&c, 1));
  return NamePattern::compile(text + "\\.(weight|bias)$");
}

namespace {
/// Dimensions of a parameter in the order of its type.
struct Dims {
  SmallVector<int64_t> inputs, outputs;
};
} // namespace

/// What the forward ops that read `param` make of its dimensions: those of a product that its result lacks are inputs.
/// Of an embedding the vocabulary is what goes in, and what is added is as what it is added to: an output.
static Dims dimsOf(ParamOp param) {
  Dims dims;
  int64_t tensorRank = param.getWholeType().getRank();
  param->getParentOfType<ModuleOp>().walk([&](ReadOp read) {
    if (read.getSource() != param.getSymName() || !dims.inputs.empty() || !dims.outputs.empty())
      return;
    for (OpOperand &use : read->getUses()) {
      Operation *user = use.getOwner();
      if (isBackward(user))
        continue;
      auto einsum = dyn_cast<EinsumOp>(user);
      for (int64_t dim = 0; dim < tensorRank; ++dim) {
        bool isInput = isa<EmbeddingOp>(user) && dim == 0;
        if (einsum) {
          EinsumOp::Letters letters = einsum.getLetters();
          isInput = !letters.result.contains((use.getOperandNumber() == 0 ? letters.lhs : letters.rhs)[dim]);
        }
        (isInput ? dims.inputs : dims.outputs).push_back(dim);
      }
      return;
    }
  });
  return dims;
}

void TensorPlan::add(ParamOp param, StringRef entry, StringRef style, const FactorClasses &classes) {
  Dims dims = dimsOf(param);
  auto classAt = [&](int64_t dim) { return classes.classOf(param.getSymNameAttr(), dim); };
  if (style.starts_with("replicate")) {
    for (int64_t dim : llvm::concat<int64_t>(dims.inputs, dims.outputs))
      whole.insert(classAt(dim));
    return;
  }
  // A bias that is added to sums over the inputs has no input of its own, and stays whole.
  ArrayRef<int64_t> split = style.starts_with("colwise") ? dims.outputs : dims.inputs;
  if (int cls = split.empty() ? -1 : classAt(split.front()); cls >= 0)
    splits.push_back({cls, param, entry});
}

FailureOr<TensorPlan> TensorPlan::read(ModuleOp module, const FactorClasses &classes) {
  TensorPlan plan;
  auto entries = module->getAttrOfType<ArrayAttr>(kTensorPlan);
  for (Attribute attribute : entries ? entries.getValue() : ArrayRef<Attribute>()) {
    auto text = dyn_cast<StringAttr>(attribute);
    auto [name, style] = text ? text.getValue().rsplit('=') : std::pair<StringRef, StringRef>();
    const StringRef styles[] = {"colwise",     "colwise_rep", "colwise_gather_output",         "rowwise",
                                "rowwise_rep", "replicate",   "replicated_with_grad_allreduce"};
    if (!llvm::is_contained(styles, style))
      return module.emitError() << kTensorPlan << " has the entry " << attribute
                                << ", expected \"MODULE=STYLE\" with one of the styles " << llvm::ArrayRef(styles);
    llvm::Expected<NamePattern> pattern = parametersOf(name);
    if (!pattern)
      return module.emitError() << kTensorPlan << " has an entry with a module that "
                                << llvm::toString(pattern.takeError());
    for (ParamOp param : module.getOps<ParamOp>())
      if (pattern->match(param.getSymName()))
        plan.add(param, text.getValue(), style, classes);
  }
  return plan;
}
