// Writing in place. ONNX's graphs have no memory, so each value is followed by what it has become, and a view by the
// value that it shows: writing into either changes both. What is written through a view is put into its base, and the
// other views that are still asked for are taken again.
#include "Translator.h"

#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <limits>
#include <utility>

using namespace hyc;
using namespace hyc::torchexport;
using llvm::StringRef;

static constexpr int kMaxDepth = 256;           // of views of views
static constexpr size_t kMaxRenewals = 1 << 20; // of views, in one program

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
    const Argument *written = writtenArgument(node);
    if (!written)
      continue;
    std::string first, own;
    forEachTensor(node, *written, [&](StringRef value) {
      first = canonical(value).str();
      own = value.str();
    });
    const bool writes = withoutWriting(node.target).has_value();
    NodeTranslation arguments(*this, node);
    for (const std::string &result : node.results) {
      if (writes) {
        sameAs[result] = first;
        continue;
      }
      auto metaOf = [&](StringRef value) {
        auto meta = program.values.find(value);
        return meta == program.values.end() ? nullptr : &meta->second;
      };
      const Sharing sharing = sharingOf(arguments, node.target, metaOf(own), metaOf(result));
      if (sharing != Sharing::Never && isLive[index] && viewOf.insert({result, {index, first, sharing}}).second)
        viewsOf[first].push_back(result);
    }
  }
  for (const auto &[value, name] : program.outputs)
    lastUse[canonical(value)] = program.nodes.size();
}

/// Whether somebody asks later for a value, or for a view of it that is not one of `but`; what the model keeps is
/// always asked for.
bool Translator::isWanted(StringRef value, StringRef but) const {
  std::vector<StringRef> shown{value};
  for (size_t i = 0; i < shown.size() && i <= viewOf.size(); ++i) {
    auto use = lastUse.find(shown[i]);
    if (shown[i].starts_with("#") || (use != lastUse.end() && use->second > current))
      return true;
    auto views = viewsOf.find(shown[i]);
    for (StringRef view : views == viewsOf.end() ? llvm::ArrayRef<StringRef>() : llvm::ArrayRef(views->second))
      if (view != but && viewOf.find(view)->second.node < current)
        shown.push_back(view);
  }
  return false;
}

std::string Translator::objectionToWriting(StringRef value) const {
  // A parameter, or a view of one, is the optimizer's to change.
  StringRef own = canonical(value);
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    for (const auto &tensor : program.tensorOf)
      if (canonical(tensor.getKey()) == own && program.tensors[tensor.getValue()].isParameter)
        return "the parameter \"" + program.tensors[tensor.getValue()].name + "\"";
    auto made = viewOf.find(own);
    if (made == viewOf.end())
      return "";
    own = made->second.base;
  }
  return "a view of views that are nested deeper than " + std::to_string(kMaxDepth);
}

bool Translator::store(StringRef value, const std::string &now) {
  const std::string own = canonical(value).str();
  written[own] = now;
  return renewViews(own, "", 0) && storeInBase(own, now, 0);
}

/// Reports a view that may be a copy where that makes a difference.
bool Translator::isCertain(const View &view, NodeTranslation &made) const {
  if (view.sharing == Sharing::Always)
    return true;
  made.error() << "gives a view of its operand or a copy, which depends on sizes that are not known, and node "
               << program.nodes[current].nameForMessages()
               << " writes into one of them while the other is used later as well; write into a clone(), or export the "
                  "program after .run_decompositions({}), which writes nothing in place";
  return false;
}

bool Translator::storeInBase(StringRef view, const std::string &now, int depth) {
  auto made = viewOf.find(view);
  bool isShown = false; // by what the view is of, at any depth
  StringRef above = view;
  for (int i = 0; i <= kMaxDepth && !isShown && viewOf.count(above); ++i) {
    StringRef base = viewOf.find(above)->second.base;
    isShown = isWanted(base, above);
    above = base;
  }
  if (made == viewOf.end() || depth > kMaxDepth || !isShown)
    return true;
  const View &own = made->second;
  const Node &node = program.nodes[own.node];
  NodeTranslation inverse(*this, node, "@" + std::to_string(++renewals));
  if (!isCertain(own, inverse))
    return false;
  Name base = putIntoBase(inverse, operatorOf(node.target), now);
  if (base.empty()) {
    if (!inverse.failed())
      inverse.error() << "gives a view of what is used later as well, into which node "
                      << program.nodes[current].nameForMessages()
                      << " writes; export the program after .run_decompositions({}), which writes nothing in place";
    return false;
  }
  written[own.base] = base;
  return !inverse.failed() && renewViews(own.base, view, 0) && storeInBase(own.base, base, depth + 1);
}

/// Takes the views of `base` again that somebody asks for later, and theirs.
bool Translator::renewViews(StringRef base, StringRef but, int depth) {
  auto views = viewsOf.find(base);
  if (views == viewsOf.end())
    return true;
  for (StringRef view : views->second) {
    const View &made = viewOf.find(view)->second;
    if (view == but || made.node >= current || !isWanted(view, ""))
      continue;
    const Node &node = program.nodes[made.node];
    const std::string suffix = "@" + std::to_string(++renewals);
    NodeTranslation again(*this, node, suffix);
    if (!isCertain(made, again))
      return false;
    if (depth >= kMaxDepth || renewals > kMaxRenewals) {
      again.error() << "gives one of too many views of what is written, or of views nested deeper than " << kMaxDepth;
      return false;
    }
    const size_t before = std::exchange(current, made.node);
    translationOf(node)(again);
    current = before;
    if (again.failed())
      return false;
    written[view] = view.str() + suffix;
    if (!renewViews(view, "", depth + 1))
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
  for (int64_t dim = 0; dim < rank + view.isComplex("self"); ++dim) // parts of complex numbers stay the last
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
  const std::optional<int64_t> whole = view.metaOf("self").sizes[dim].value;
  if (target == "select") {
    int64_t index = view.integer("index"), size = view.sizeOf("self", dim);
    index = index < 0 ? index + size : index;
    return putRange(view, view.tensor("self"), dim, size, index, index + 1,
                    view.emit("Unsqueeze", {now, view.constant({dim})}));
  }
  if (whole && view.isNumber("start") && view.isNumber("end") && view.integer("step", 1) == 1) {
    auto bound = [&](const char *name, int64_t otherwise) {
      int64_t given = view.integer(name, otherwise);
      return std::clamp<int64_t>(given < 0 ? given + *whole : given, 0, *whole);
    };
    int64_t begin = bound("start", 0), end = bound("end", *whole);
    return begin >= end ? view.tensor("self") : putRange(view, view.tensor("self"), dim, *whole, begin, end, now);
  }
  Name shape = view.emit("Shape", {view.tensor("self")});
  Name size = view.emit("Gather", {shape, view.constant(ScalarType::I64, static_cast<double>(dim))}, {{{"axis", 0}}});
  Name all = view.emit("Range", {view.constant(ScalarType::I64, 0), size, view.constant(ScalarType::I64, 1)});
  Name positions = view.emit("Slice", {all, view.size("start", 0), view.size("end", kEnd), view.constant({0}),
                                       view.constant({view.integer("step", 1)})});
  std::vector<int64_t> order{dim};
  rank += view.isComplex("self");
  for (int64_t each = 0; each < rank; ++each)
    if (each != dim)
      order.push_back(each);
  Name values = dim == 0 ? now : view.emit("Transpose", {now}, {{}, {}, {{"perm", order}}});
  return putAt(view, view.tensor("self"), rank, dim, positions, values, "none");
}

Name hyc::torchexport::putIntoBase(NodeTranslation &view, StringRef target, const Name &now) {
  static const llvm::StringSet<>
      same = {"alias",         "contiguous",           "to", "type_as", "dropout", "feature_dropout",
              "alpha_dropout", "feature_alpha_dropout"},
      reshaped = {"view",  "_unsafe_view", "reshape", "reshape_as", "flatten",
                  "ravel", "unsqueeze",    "squeeze", "unflatten",  "view_as"},
      turned = {"t", "mT", "transpose", "permute"}, parts = {"select", "slice"};
  if (same.contains(target))
    return now;
  if (reshaped.contains(target))
    return view.emit("Reshape", {now, view.emit("Shape", {view.tensor("self")})}, {{{"allowzero", 1}}});
  if (turned.contains(target))
    return turnedBack(view, target, now);
  return parts.contains(target) ? putPart(view, target, now) : "";
}
