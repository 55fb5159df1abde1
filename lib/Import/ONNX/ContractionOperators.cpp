// Matrix products, which all become hyc.einsum; its spec says what is transposed and what is batched.
#include "Expansion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
/// Null where the letters do not fit the operands, which is then reported.
Value emitEinsum(Importer &importer, llvm::StringRef spec, Value lhs, Value rhs) {
  EinsumOp::Properties properties;
  properties.spec = importer.getBuilder().getStringAttr(spec);
  return importer.emitInferred<EinsumOp>({lhs, rhs}, properties);
}

LogicalResult checkOneFloat(NodeImport &node) {
  Type lhs = node.input(0).type.getElementType(), rhs = node.input(1).type.getElementType();
  if (lhs == rhs && isa<FloatType>(lhs))
    return success();
  return node.error() << "multiplies " << node.input(0).type << " and " << node.input(1).type
                      << ", expected one floating-point type";
}

/// a · b, reshaped without the dimensions of size 1 that the other operand repeats.
LogicalResult importMatMul(NodeImport &node) {
  if (failed(checkOneFloat(node)))
    return failure();
  ArrayRef<int64_t> a = node.shapeOf(0), b = node.shapeOf(1);
  auto mismatch = [&] {
    return node.error()
           << "cannot multiply " << node.input(0).type << " and " << node.input(1).type
           << ", expected the last dimension of the first and the last but one of the second to be of one size";
  };
  if (a.empty() || b.empty() || a.size() > 20 || b.size() > 20)
    return mismatch();
  int64_t inner = b.size() == 1 ? b[0] : b[b.size() - 2];
  ArrayRef<int64_t> batchA = a.drop_back(std::min<size_t>(a.size(), 2)),
                    batchB = b.drop_back(std::min<size_t>(b.size(), 2));
  std::optional<HostTensor::Shape> batch = broadcastShapes(batchA, batchB);
  if (a.back() != inner || !batch)
    return mismatch();
  std::string specA, specB, specResult;
  llvm::SmallVector<int64_t> shapeA, shapeB, shape(batch->begin(), batch->end());
  for (size_t i = 0; i < batch->size(); ++i) {
    char letter = static_cast<char>('a' + i);
    auto add = [&](ArrayRef<int64_t> own, std::string &spec, llvm::SmallVectorImpl<int64_t> &kept) {
      size_t missing = batch->size() - own.size();
      // A size-1 dimension that is repeated is left out; where both have it, it is a batch of one.
      if (i >= missing && own[i - missing] == (*batch)[i])
        spec += letter, kept.push_back(own[i - missing]);
    };
    add(batchA, specA, shapeA);
    add(batchB, specB, shapeB);
    specResult += letter;
  }
  if (a.size() > 1)
    specA += 'm', specResult += 'm', shapeA.push_back(a[a.size() - 2]), shape.push_back(a[a.size() - 2]);
  specA += 'k', shapeA.push_back(a.back());
  specB += 'k', shapeB.push_back(inner);
  if (b.size() > 1)
    specB += 'n', specResult += 'n', shapeB.push_back(b.back()), shape.push_back(b.back());
  if (!countElements(shape))
    return mismatch();
  Importer &importer = node.importer();
  std::optional<Binding> lhs = importer.reshape(node.input(0), shapeA), rhs = importer.reshape(node.input(1), shapeB);
  if (!lhs || !rhs)
    return node.finish(std::nullopt);
  Value product = emitEinsum(importer, specA + "," + specB + "->" + specResult, importer.materialise(*lhs),
                             importer.materialise(*rhs));
  return product ? node.finish(importer.ofValue(product)) : failure();
}

Value scaled(Importer &importer, Value value, double factor) {
  if (factor == 1)
    return value;
  Binding constant = importer.splatLike(cast<RankedTensorType>(value.getType()), factor);
  return importer.emit<MulOp>(value, importer.materialise(constant));
}

/// alpha · op(a) op(b) + beta · c
LogicalResult importGemm(NodeImport &node) {
  if (failed(checkOneFloat(node)))
    return failure();
  bool transA = node.getInt("transA", 0) != 0, transB = node.getInt("transB", 0) != 0;
  ArrayRef<int64_t> a = node.shapeOf(0), b = node.shapeOf(1);
  if (a.size() != 2 || b.size() != 2 || a[transA ? 0 : 1] != b[transB ? 1 : 0])
    return node.error() << "cannot multiply " << node.input(0).type << (transA ? " (transposed)" : "") << " and "
                        << node.input(1).type << (transB ? " (transposed)" : "")
                        << ", expected matrices of one inner size";
  Importer &importer = node.importer();
  std::string spec = std::string(transA ? "km," : "mk,") + (transB ? "nk" : "kn") + "->mn";
  Value result = emitEinsum(importer, spec, node.value(0), node.value(1));
  if (!result)
    return failure();
  result = scaled(importer, result, node.getFloat("alpha", 1));
  double beta = node.getFloat("beta", 1);
  if (node.has(2) && beta != 0) {
    auto type = cast<RankedTensorType>(result.getType());
    std::optional<HostTensor::Shape> shape = broadcastShapes(node.shapeOf(2), type.getShape());
    if (!shape || ArrayRef<int64_t>(*shape) != type.getShape() ||
        node.input(2).type.getElementType() != type.getElementType())
      return node.error() << "adds " << node.input(2).type << " to " << type << ", expected what repeats to its shape";
    std::optional<Binding> added = importer.broadcast(node.input(2), type.getShape());
    result = importer.emit<AddOp>(result, scaled(importer, importer.materialise(*added), beta));
  }
  return node.finish(importer.ofValue(result));
}

/// The letters of an equation's operands and of its result; an ellipsis stands for letters of its own.
struct Equation {
  llvm::SmallVector<std::string> operands;
  std::string result;
};

std::optional<Equation> parseEquation(NodeImport &node, std::string text) {
  llvm::erase(text, ' ');
  auto [left, right] = llvm::StringRef(text).split("->");
  Equation equation;
  llvm::SmallVector<llvm::StringRef> parts;
  left.split(parts, ',');
  size_t most = 0; // dimensions that an ellipsis stands for
  auto expand = [&](llvm::StringRef part, size_t count) {
    auto [before, after] = part.split("...");
    std::string letters = before.str();
    for (size_t i = 0; part.contains("...") && i < count; ++i)
      letters += static_cast<char>('0' + most - count + i);
    return letters + after.str();
  };
  bool good = static_cast<int>(parts.size()) == node.inputCount() && text.find("->") == text.rfind("->");
  llvm::SmallVector<size_t> hidden;
  for (int i = 0; good && i < node.inputCount(); ++i) {
    size_t named = parts[i].size() - (parts[i].contains("...") ? 3 : 0), dims = node.shapeOf(i).size();
    good = parts[i].contains("...") ? named <= dims : named == dims;
    hidden.push_back(good ? dims - named : 0);
    most = std::max(most, hidden.back());
  }
  if (!good || most > 9)
    return std::nullopt;
  auto isSpelt = [](llvm::StringRef part) {
    auto [before, after] = part.split("...");
    return llvm::all_of(before, llvm::isAlpha) && llvm::all_of(after, llvm::isAlpha);
  };
  if (!llvm::all_of(parts, isSpelt) || !isSpelt(right))
    return std::nullopt;
  for (auto [part, count] : llvm::zip_equal(parts, hidden))
    equation.operands.push_back(expand(part, count));
  if (text.find("->") != std::string::npos) {
    equation.result = expand(right, most);
  } else { // in the order of the alphabet, those that stand once
    std::string all;
    for (const std::string &letters : equation.operands)
      all += letters;
    llvm::sort(all);
    for (char letter : all)
      if (llvm::isDigit(letter) ? equation.result.find(letter) == std::string::npos : llvm::count(all, letter) == 1)
        equation.result += letter;
  }
  return equation;
}

/// Takes the diagonal where a letter stands twice, and sums over letters that nobody else has.
Binding simplified(Expansion &e, Binding x, std::string &letters, llvm::StringRef others) {
  for (size_t i = 0; e.ok() && i < letters.size(); ++i) {
    size_t twin = letters.find(letters[i], i + 1);
    if (twin == std::string::npos)
      continue;
    int64_t size = x.type.getDimSize(i), tensorRank = x.type.getRank();
    if (x.type.getDimSize(twin) != size) {
      e.fail("takes the diagonal of dimensions of different sizes");
      return {};
    }
    Binding isDiagonal = e("Equal", {e.iota(size, i, tensorRank), e.iota(size, twin, tensorRank)});
    x = e.reduce("ReduceSum", e.where(isDiagonal, x, e.number(x, 0)), {static_cast<int64_t>(twin)}, false);
    letters.erase(twin--, 1);
    --i;
  }
  llvm::SmallVector<int64_t> alone;
  std::string kept;
  for (auto [i, letter] : llvm::enumerate(letters)) {
    if (others.contains(letter))
      kept += letter;
    else
      alone.push_back(static_cast<int64_t>(i));
  }
  letters = kept;
  return alone.empty() ? x : e.reduce("ReduceSum", x, alone, false);
}

/// A spec of hyc's, whose letters are letters: dimensions that "..." stands for get some that no other one has.
std::string withLetters(std::string spec) {
  std::string free;
  for (char first : {'A', 'a'})
    for (char letter = first; letter < first + 26; ++letter)
      if (spec.find(letter) == std::string::npos)
        free += letter;
  for (char &c : spec)
    if (size_t digit = static_cast<size_t>(c - '0'); llvm::isDigit(c) && digit < free.size())
      c = free[digit];
  return spec;
}

/// One or two operands; more are contracted from the left.
LogicalResult importEinsum(NodeImport &node) {
  std::string text = node.getString("equation", "");
  std::optional<Equation> equation = parseEquation(node, text);
  for (int i = 0; i < node.inputCount(); ++i)
    if (!node.has(i) || node.input(i).type.getElementType() != node.input(0).type.getElementType())
      return node.error() << "contracts tensors of different element types";
  Expansion e(node);
  auto mismatch = [&] {
    e.fail("has the equation '" + text + "', expected a letter for each dimension of its " +
           std::to_string(node.inputCount()) + " operands, as in \"bij,bjk->bik\"");
  };
  if (!equation)
    mismatch();
  Binding all;
  std::string have;
  for (int i = 0; e.ok() && i < node.inputCount(); ++i) {
    std::string letters = equation->operands[i], later = equation->result;
    for (int j = 0; j < node.inputCount(); ++j)
      later += j != i ? equation->operands[j] : "";
    Binding x = simplified(e, node.input(i), letters, later);
    if (i == 0) {
      all = x, have = letters;
      continue;
    }
    // What a later operand or the result wants.
    std::string wanted, rest = equation->result;
    for (int j = i + 1; j < node.inputCount(); ++j)
      rest += equation->operands[j];
    for (char letter : have + letters)
      if (rest.find(letter) != std::string::npos && wanted.find(letter) == std::string::npos)
        wanted += letter;
    std::string spec = withLetters(have + "," + letters + "->" + wanted);
    Importer &importer = node.importer();
    all = e.emit([&] { return emitEinsum(importer, spec, importer.materialise(all), importer.materialise(x)); });
    have = wanted;
  }
  llvm::SmallVector<int64_t> permutation;
  for (size_t i = 0; e.ok() && i < equation->result.size(); ++i) {
    size_t at = have.find(equation->result[i]);
    if (at == std::string::npos || equation->result.size() != have.size())
      mismatch();
    permutation.push_back(static_cast<int64_t>(at));
  }
  return e.finish(e.transpose(all, permutation));
}

/// hyc's own.
LogicalResult importExpertMatMul(NodeImport &node) {
  if (failed(checkOneFloat(node)))
    return failure();
  ArrayRef<int64_t> x = node.shapeOf(0), w = node.shapeOf(1), experts = node.shapeOf(2);
  if (x[0] != experts[0] || x[1] != w[1])
    return node.error() << "multiplies rows " << node.input(0).type << " by matrices " << node.input(1).type
                        << " of experts " << node.input(2).type << ", expected (N,K), (E,K,M) and (N)";
  Importer &importer = node.importer();
  Expansion e(node);
  Binding ids = e.cast(node.input(2), importer.getBuilder().getI64Type());
  return e.finish(e.emit([&] {
    return importer.emit<ExpertMatmulOp>(RankedTensorType::get({x[0], w[2]}, node.input(0).type.getElementType()),
                                         node.value(0), node.value(1), importer.materialise(ids), Value(), UnitAttr());
  }));
}

//===----------------------------------------------------------------------===//
// Determinants
//===----------------------------------------------------------------------===//

/// Gaussian elimination, written out step by step: the row whose first element is largest takes the first one's place,
/// and what is left has a row and a column less.
LogicalResult importDet(NodeImport &node) {
  Expansion e(node);
  RankedTensorType type = node.input(0).type;
  const int64_t size = type.getShape().back();
  constexpr int64_t kMost = 64; // steps
  if (type.getDimSize(type.getRank() - 2) != size || size > kMost)
    return node.error() << "takes the determinant of " << type << ", expected square matrices of at most " << kMost
                        << " rows";
  llvm::SmallVector<int64_t> batch(type.getShape().drop_back(2));
  const int64_t count = *countElements(batch);
  Binding left = e.reshape(node.input(0), {count, size, size}), result;
  for (int64_t have = size; have > 0 && e.ok(); --have) {
    auto part = [&](Binding x, int64_t dim, int64_t from, int64_t elements) {
      return e.ok() ? *node.importer().slice(x, dim, from, elements, 1) : Binding();
    };
    Binding column = e.reshape(part(left, 2, 0, 1), {count, have});
    Binding at = e("ArgMax", {e("Abs", {column})}, {{"axis", int64_t(1)}}); // (count, 1)
    Binding pivotRow = e.gather(left, at, 1, 1);                            // (count, 1, have)
    Binding pivot = e.reshape(part(pivotRow, 2, 0, 1), {count, 1, 1});
    Binding isFirst = e("Equal", {at, e.integer(0)});
    Binding sign = e.where(isFirst, e.number(left, 1), e.number(left, -1));
    Binding factor = e.mul(e.reshape(sign, {count}), e.reshape(pivot, {count}));
    result = result.type ? e.mul(result, factor) : factor;
    if (have == 1)
      break;
    // The first row stands where the other one was taken away.
    Binding isTaken = e("Equal", {e.iota(have, 1, 3), e.reshape(at, {count, 1, 1})});
    Binding rows = part(e.where(isTaken, part(left, 1, 0, 1), left), 1, 1, have - 1);
    Binding safe = e.where(e("Equal", {pivot, e.number(pivot, 0)}), e.number(pivot, 1), pivot);
    Binding less = e.sub(rows, e.mul(e.div(part(rows, 2, 0, 1), safe), pivotRow));
    left = part(less, 2, 1, have - 1);
  }
  return e.finish(e.reshape(result, batch));
}
} // namespace

void hyc::onnx::addContractionOperators(OperatorTable &table) {
  table["MatMul"] = {importMatMul, {tensor("A").ranks(1), tensor("B").ranks(1)}};
  table["Gemm"] = {importGemm, {tensor("A").rank(2), tensor("B").rank(2), tensor("C").ranks(0, 2).optional()}};
  table[kExpertMatMul] = {
      importExpertMatMul,
      {tensor("x").real().rank(2), tensor("w").real().rank(3), tensor("experts").integer().rank(1)}};
  table["Einsum"] = {importEinsum, OperandRules::many(tensor("Inputs"))};
  table["Det"] = {importDet, {tensor("X").real().ranks(2)}};
}
