// Writing in place. ONNX's graphs have no memory, so each value is followed by what it has become, and a view by the
// value that it shows: writing into either changes both. What is written through a view is put into its base, and the
// other views that are still asked for are taken again.
#include "Translator.h"

#include "llvm/ADT/StringSet.h"

#include <limits>
#include <utility>

using namespace hyc;
using namespace hyc::torchexport;
using llvm::StringRef;

/// The operator's name alone.
static StringRef operatorOf(StringRef target) {
  target.consume_front("aten.");
  return target.split('.').first;
}

/// Whether an operator's result may be its first operand's memory under another shape.
static bool isView(const Program &program, const Node &node, StringRef base) {
  static const llvm::StringSet<> views = {
      "view",   "_unsafe_view", "reshape", "flatten", "expand",  "unsqueeze", "squeeze", "transpose",
      "t",      "permute",      "slice",   "select",  "alias",   "detach",    "split",   "split_with_sizes",
      "chunk",  "contiguous",   "to",      "narrow",  "dropout", "unbind",    "mT",      "unflatten",
      "view_as"};
  StringRef name = operatorOf(node.target);
  if (!views.contains(name))
    return false;
  auto from = program.values.find(base);
  auto to = node.results.empty() ? program.values.end() : program.values.find(node.results.front());
  // Of another type it is a copy.
  return from == program.values.end() || to == program.values.end() || from->second.type == to->second.type;
}

void hyc::torchexport::forEachTensor(const Node &node, const Argument &argument,
                                     llvm::function_ref<void(StringRef)> visit) {
  auto visitOne = [&](const JsonValue &value) {
    const JsonValue *tensor = value.get("as_tensor");
    const JsonValue *name = (tensor ? *tensor : value).get("name");
    if (name && name->getString())
      visit(node.nameOf(*name->getString()));
  };
  if (const std::vector<JsonValue> *list = argument.value->getArray())
    llvm::for_each(*list, visitOne);
  else
    visitOne(*argument.value);
}

void Translator::findStorage() {
  for (const auto &tensor : program.tensorOf)
    sameAs[tensor.getKey()] = "#" + std::to_string(tensor.getValue());
  for (auto [index, node] : llvm::enumerate(program.nodes)) {
    for (const Argument &argument : node.arguments)
      forEachTensor(node, argument, [&, index = index](StringRef value) {
        if (isLive[index])
          lastUse[canonical(value)] = index;
      });
    if (node.arguments.empty())
      continue;
    std::string first, own;
    forEachTensor(node, node.arguments.front(), [&](StringRef value) {
      first = canonical(value).str();
      own = value.str();
    });
    const bool writes = withoutWriting(node.target).has_value();
    if (!writes && !isView(program, node, own))
      continue;
    for (const std::string &result : node.results)
      if (writes)
        sameAs[result] = first;
      else if (isLive[index])
        viewOf[result] = {index, first};
  }
  for (const auto &[value, name] : program.outputs)
    lastUse[canonical(value)] = program.nodes.size();
}

/// Whether somebody asks for a value, or for a view of it, later; what the model keeps is always asked for.
bool Translator::isWanted(StringRef value) const {
  llvm::StringSet<> shown;
  shown.insert(value);
  auto isUsedLater = [&](StringRef own) {
    auto use = lastUse.find(own);
    return own.starts_with("#") || (use != lastUse.end() && use->second > current);
  };
  if (isUsedLater(value))
    return true;
  for (const auto &[view, made] : viewOf)
    if (made.node < current && shown.contains(made.base)) {
      if (isUsedLater(view))
        return true;
      shown.insert(view);
    }
  return false;
}

std::string Translator::objectionToWriting(StringRef value) const {
  // A parameter, or a view of one, is the optimizer's to change.
  for (StringRef own = canonical(value);;) {
    for (const auto &tensor : program.tensorOf)
      if (canonical(tensor.getKey()) == own && program.tensors[tensor.getValue()].isParameter)
        return "the parameter \"" + program.tensors[tensor.getValue()].name + "\"";
    auto made = viewOf.find(own);
    if (made == viewOf.end())
      return "";
    own = made->second.base;
  }
}

bool Translator::store(StringRef value, const std::string &now) {
  const std::string own = canonical(value).str();
  written[own] = now;
  return renewViews(own, "") && storeInBase(own, now);
}

bool Translator::storeInBase(StringRef view, const std::string &now) {
  auto made = viewOf.find(view);
  if (made == viewOf.end() || !isWanted(made->second.base))
    return true;
  const View &own = made->second;
  const Node &node = program.nodes[own.node];
  NodeTranslation inverse(*this, node, "@" + std::to_string(++renewals));
  Name base = putIntoBase(inverse, operatorOf(node.target), now);
  if (base.empty()) {
    if (!inverse.failed())
      inverse.error() << "gives a view of what is used later as well, into which node \"" << program.nodes[current].name
                      << "\" writes; export the program after .run_decompositions({}), which writes nothing in place";
    return false;
  }
  written[own.base] = base;
  return !inverse.failed() && renewViews(own.base, view) && storeInBase(own.base, base);
}

/// Takes the views of `base` again that somebody asks for later, and theirs.
bool Translator::renewViews(StringRef base, StringRef but) {
  for (size_t i = 0; i < viewOf.size(); ++i) {
    const StringRef view = (viewOf.begin() + i)->first;
    const View made = (viewOf.begin() + i)->second;
    if (made.base != base || view == but || made.node >= current || !isWanted(view))
      continue;
    const Node &node = program.nodes[made.node];
    const std::string suffix = "@" + std::to_string(++renewals);
    NodeTranslation again(*this, node, suffix);
    const size_t before = std::exchange(current, made.node);
    findAnyTranslation(node.target)(again);
    current = before;
    if (again.failed())
      return false;
    written[view] = view.str() + suffix;
    if (!renewViews(view, ""))
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// The other way
//===----------------------------------------------------------------------===//

static Name turnedBack(NodeTranslation &view, StringRef target, const Name &now) {
  int64_t rank = view.tensorRank("self");
  std::vector<int64_t> order;
  for (int64_t dim = 0; dim < rank; ++dim)
    order.push_back(dim);
  if (rank < 2)
    return now;
  if (target == "t" || target == "mT") {
    std::swap(order[rank - 1], order[rank - 2]);
  } else if (target == "transpose") {
    std::swap(order[view.dimension("dim0", rank)], order[view.dimension("dim1", rank)]);
  } else {
    std::vector<int64_t> dims = view.integers("dims");
    for (int64_t i = 0; i < static_cast<int64_t>(dims.size()) && i < rank; ++i) {
      int64_t dim = dims[i] < 0 ? dims[i] + rank : dims[i];
      if (dim >= 0 && dim < rank)
        order[dim] = i;
    }
  }
  return view.emit("Transpose", {now}, {{}, {}, {{"perm", order}}});
}

/// Along one dimension: at one position, or at those of a slice.
static Name putPart(NodeTranslation &view, StringRef target, const Name &now) {
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  int64_t rank = view.tensorRank("self"), dim = view.dimension("dim", rank, 0);
  if (rank == 0 || view.failed())
    return "";
  if (target == "select") {
    Name values = view.emit("Unsqueeze", {now, view.constant({0})});
    return putAt(view, view.tensor("self"), rank, dim, view.constant({view.integer("index")}), values, "none");
  }
  Name shape = view.emit("Shape", {view.tensor("self")});
  Name size = view.emit("Gather", {shape, view.constant(ScalarType::I64, static_cast<double>(dim))}, {{{"axis", 0}}});
  Name all = view.emit("Range", {view.constant(ScalarType::I64, 0), size, view.constant(ScalarType::I64, 1)});
  Name positions = view.emit("Slice", {all, view.size("start", 0), view.size("end", kEnd), view.constant({0}),
                                       view.constant({view.integer("step", 1)})});
  std::vector<int64_t> order{dim};
  for (int64_t each = 0; each < rank; ++each)
    if (each != dim)
      order.push_back(each);
  Name values = dim == 0 ? now : view.emit("Transpose", {now}, {{}, {}, {{"perm", order}}});
  return putAt(view, view.tensor("self"), rank, dim, positions, values, "none");
}

Name hyc::torchexport::putIntoBase(NodeTranslation &view, StringRef target, const Name &now) {
  static const llvm::StringSet<> same = {"alias", "contiguous", "to", "dropout"},
                                 reshaped = {"view",      "_unsafe_view", "reshape",   "flatten",
                                             "unsqueeze", "squeeze",      "unflatten", "view_as"},
                                 turned = {"t", "mT", "transpose", "permute"}, parts = {"select", "slice"};
  if (same.contains(target))
    return now;
  if (reshaped.contains(target))
    return view.emit("Reshape", {now, view.emit("Shape", {view.tensor("self")})}, {{{"allowzero", 1}}});
  if (turned.contains(target))
    return turnedBack(view, target, now);
  return parts.contains(target) ? putPart(view, target, now) : "";
}
