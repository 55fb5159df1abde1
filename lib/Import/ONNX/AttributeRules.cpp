// The one place in which a node's attributes are compared with those that its operator has in the model's operator set.
#include "Importer.h"
#include "hyc/Support/NearestName.h"

using namespace hyc;
using namespace hyc::onnx;
using llvm::StringRef;

namespace {
/// The format's numbers of types of attributes.
enum AttributeKind {
  Float = 1,
  Int,
  String,
  Tensor,
  Graph,
  Floats,
  Ints,
  Strings,
  Sparse_Tensor = 11,
  Type_Proto = 13,
};

/// One attribute of one operator.
struct AttributeRow {
  StringRef operatorName, name;
  AttributeKind kind;
  int64_t first, end; // the operator sets that have it; `end` is 0 where the newest has
};

const AttributeRow kRows[] = {
#define ATTRIBUTE(OPERATOR, NAME, KIND, FIRST, END) {OPERATOR, NAME, KIND, FIRST, END},
#include "AttributeTable.inc"
#undef ATTRIBUTE
};

/// The rows of an operator; none where it has no attributes.
llvm::ArrayRef<AttributeRow> rowsOf(StringRef operatorName) {
  static const llvm::StringMap<llvm::ArrayRef<AttributeRow>> table = [] {
    llvm::StringMap<llvm::ArrayRef<AttributeRow>> result;
    llvm::ArrayRef<AttributeRow> left = kRows;
    while (!left.empty()) {
      StringRef name = left.front().operatorName;
      auto ours = left.take_while([&](const AttributeRow &row) { return row.operatorName == name; });
      result[name] = ours;
      left = left.drop_front(ours.size());
    }
    return result;
  }();
  return table.lookup(operatorName);
}

/// "BatchNormalization has it in operator sets 7 to 8"
std::string describeSets(const AttributeRow &row) {
  std::string from = std::to_string(row.first), last = std::to_string(row.end - 1);
  if (!row.end)
    return "from operator set " + from + " on";
  if (row.end - row.first == 1)
    return "in operator set " + from + " only";
  return row.first == 1 ? "up to operator set " + last : "in operator sets " + from + " to " + last;
}

/// What the operator has in place of an attribute that it does not know.
std::string describeKnown(llvm::ArrayRef<AttributeRow> rows, StringRef name, int64_t opset) {
  llvm::SmallVector<StringRef> known;
  for (const AttributeRow &row : rows)
    if (row.first <= opset && (!row.end || opset < row.end) && !llvm::is_contained(known, row.name))
      known.push_back(row.name);
  if (known.empty())
    return "it has none";
  StringRef nearest = nearestName(name, known);
  if (nameDistance(name, nearest) <= 2)
    return "did you mean '" + nearest.str() + "'?";
  return "it has '" + llvm::join(known, "', '") + "'";
}
} // namespace

StringRef hyc::onnx::nameOfAttributeKind(int kind) {
  static const char *const names[] = {
      "no type", "FLOAT",   "INT",    "STRING",        "TENSOR",         "GRAPH",      "FLOATS",     "INTS",
      "STRINGS", "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};
  return kind >= 0 && kind < static_cast<int>(std::size(names)) ? names[kind] : "unknown type";
}

bool NodeImport::checkAttributes() {
  if (owner.getFile().isAssembled() && node.domain() == "hyc")
    return true; // no exporter has written it
  llvm::ArrayRef<AttributeRow> rows = rowsOf(nameInTable(node));
  for (const onnxfile::Attribute &attribute : node.attribute()) {
    if (owner.getFile().isAssembled() &&
        llvm::is_contained({kUnbiasedAverage, kPaddingRow, kCountsFromFront}, attribute.name()))
      continue;
    const AttributeRow *sameName = nullptr, *inSet = nullptr, *fitting = nullptr;
    for (const AttributeRow &row : rows) {
      if (row.name != attribute.name())
        continue;
      sameName = &row;
      if (row.first > opset() || (row.end && opset() >= row.end))
        continue;
      inSet = &row;
      if (row.kind == attribute.type())
        fitting = &row;
    }
    if (fitting)
      continue;
    auto fail = error() << "has attribute '" << attribute.name() << "'";
    if (inSet)
      fail << " of type " << nameOfAttributeKind(attribute.type()) << ", expected " << nameOfAttributeKind(inSet->kind);
    else if (sameName)
      fail << ", which " << opType() << " has " << describeSets(*sameName) << "; the model says " << opset();
    else
      fail << ", which " << opType() << " does not have; " << describeKnown(rows, attribute.name(), opset());
    return false;
  }
  return true;
}
