// Products, layer norms and attention. What ONNX has no operator for is written out; the passes of phase 1 put it
// together again.
#include "Translator.h"

#include <cmath>

using namespace hyc::torchexport;

namespace {
void product(NodeTranslation &node) {
  const char *other = node.has("mat2") ? "mat2" : "other";
  node.finish(node.emit("MatMul", {node.tensor("self"), node.tensor(other)}));
}

/// input · weightᵀ + bias
void linear(NodeTranslation &node) {
  Name turned = node.emit("Transpose", {node.tensor("weight")}, {{}, {}, {{"perm", {1, 0}}}});
  Name result = node.emit("MatMul", {node.tensor("input"), turned});
  node.finish(node.has("bias") ? node.emit("Add", {result, node.tensor("bias")}) : result);
}

/// beta · self + alpha · mat1 · mat2
void addedProduct(NodeTranslation &node) {
  node.finish(node.emit("Gemm", {node.tensor("mat1"), node.tensor("mat2"), node.tensor("self")},
                        {{}, {{"alpha", node.number("alpha", 1)}, {"beta", node.number("beta", 1)}}}));
}

/// A product as its letters say; torch allows spaces and leaves out what is added up.
void einsum(NodeTranslation &node) {
  std::string equation;
  for (char c : node.text("equation", ""))
    if (c != ' ')
      equation += c;
  node.finish(node.emit("Einsum", node.tensors("tensors"), {{}, {}, {}, {{"equation", equation}}}));
}

Name scaled(NodeTranslation &node, const Name &value, double factor) {
  return factor == 1 ? value : node.emit("Mul", {value, node.constant(node.resultMeta().type, factor)});
}

/// beta · self + alpha · a · b; where beta is 0, self has no part, whatever is in it.
template <const char *A, const char *B> void addedProductOf(NodeTranslation &node) {
  Name product = scaled(node, node.emit("MatMul", {node.tensor(A), node.tensor(B)}), node.number("alpha", 1));
  double beta = node.number("beta", 1);
  node.finish(beta == 0 ? product : node.emit("Add", {scaled(node, node.tensor("self"), beta), product}));
}
constexpr char kBatch1[] = "batch1", kBatch2[] = "batch2", kMat[] = "mat", kVec[] = "vec";

template <const char *Other> void productWith(NodeTranslation &node) {
  node.finish(node.emit("MatMul", {node.tensor("self"), node.tensor(Other)}));
}
constexpr char kTensor[] = "tensor", kOther[] = "other";

/// Of matrices one after another; the first and the last may be vectors.
void chainedProduct(NodeTranslation &node) {
  std::vector<Name> factors = node.tensors("tensors");
  Name product = factors.empty() ? "" : factors.front();
  for (const Name &factor : llvm::drop_begin(factors))
    product = node.emit("MatMul", {product, factor});
  node.finish(product);
}

/// Every element of one vector times every one of the other.
void outer(NodeTranslation &node) {
  Name column = node.emit("Unsqueeze", {node.tensor("self"), node.constant({1})});
  node.finish(node.emit("Mul", {column, node.tensor("vec2")}));
}

/// beta · self + alpha · vec1 · vec2ᵀ
void addedOuter(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name column = node.emit("Unsqueeze", {node.operand("vec1", type), node.constant({1})});
  Name product = scaled(node, node.emit("Mul", {column, node.operand("vec2", type)}), node.number("alpha", 1));
  double beta = node.number("beta", 1);
  node.finish(beta == 0 ? product : node.emit("Add", {scaled(node, node.operand("self", type), beta), product}));
}

/// As many letters as dimensions, from `first` on.
std::string letters(char first, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += static_cast<char>(first + i);
  return text;
}

/// Every row of the one with every row of the other.
void inner(NodeTranslation &node) {
  int64_t own = node.tensorRank("self"), others = node.tensorRank("other");
  if (own == 0 || others == 0) {
    node.finish(node.emit("Mul", {node.tensor("self"), node.tensor("other")}));
    return;
  }
  if (own > 12 || others > 12) {
    node.error() << "multiplies tensors of more than 12 dimensions, which hyc does not read";
    return;
  }
  std::string a = letters('a', own - 1), b = letters('m', others - 1);
  std::string equation = a + "z," + b + "z->" + a + b;
  node.finish(node.emit("Einsum", {node.tensor("self"), node.tensor("other")}, {{}, {}, {}, {{"equation", equation}}}));
}

/// input1 · weight[o] · input2, for each o, and the bias.
void bilinear(NodeTranslation &node) {
  int64_t lead = node.tensorRank("input1") - 1;
  if (lead < 0 || lead > 12) {
    if (!node.failed())
      node.error() << "multiplies tensors of " << lead + 1 << " dimensions, expected 1 to 13";
    return;
  }
  std::string samples = letters('a', lead);
  auto product = [&](const Name &lhs, const Name &rhs, const std::string &equation) {
    return node.emit("Einsum", {lhs, rhs}, {{}, {}, {}, {{"equation", equation}}});
  };
  Name half = product(node.tensor("input1"), node.tensor("weight"), samples + "x,oxy->" + samples + "oy");
  Name result = product(half, node.tensor("input2"), samples + "oy," + samples + "y->" + samples + "o");
  node.finish(node.has("bias") ? node.emit("Add", {result, node.tensor("bias")}) : result);
}

/// What the directions of two tensors have in common along a dimension; lengths count as no less than eps.
void cosineSimilarity(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  int64_t rank = std::max(node.tensorRank("x1"), node.tensorRank("x2"));
  int64_t dim = node.integer("dim", 1);
  Name a = node.operand("x1", type), b = node.operand("x2", type);
  auto sum = [&](const Name &lhs, const Name &rhs) {
    if (rank == 0)
      return node.emit("Mul", {lhs, rhs});
    return node.emit("ReduceSum", {node.emit("Mul", {lhs, rhs}), node.constant({dim < 0 ? dim : dim - rank})},
                     {{{"keepdims", 0}}});
  };
  Name least = node.constant(type, node.number("eps", 1e-8));
  auto length = [&](const Name &value) { return node.emit("Max", {rootOf(node, sum(value, value), type), least}); };
  node.finish(node.emit("Div", {sum(a, b), node.emit("Mul", {length(a), length(b)})}));
}

void softmax(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"));
  node.finish(node.emit("Softmax", {node.operand("self", node.resultMeta().type)}, {{{"axis", dim}}}));
}

void layerNorm(NodeTranslation &node) {
  std::vector<int64_t> shape = node.integers("normalized_shape");
  std::vector<Name> inputs{node.tensor("input")};
  inputs.push_back(node.has("weight") ? node.tensor("weight")
                                      : node.filled(node.resultMeta().type, node.constant(shape), 1));
  if (node.has("bias"))
    inputs.push_back(node.tensor("bias"));
  node.finish(node.emit("LayerNormalization", inputs,
                        {{{"axis", -static_cast<int64_t>(shape.size())}}, {{"epsilon", node.number("eps", 1e-5)}}}));
}

/// True where a query may see a key: not after it.
Name causalMask(NodeTranslation &node, const Name &query, const Name &key) {
  auto length = [&](const Name &value) {
    Name shape = node.emit("Shape", {value});
    return node.emit("Slice", {shape, node.constant({-2}), node.constant({-1})});
  };
  Name shape = node.emit("Concat", {length(query), length(key)}, {{{"axis", 0}}});
  return node.emit("Trilu", {node.filled(ScalarType::Bool, shape, 1)}, {{{"upper", 0}}});
}

/// (…, heads, length, size) with each head repeated until there are `heads`.
Name repeatHeads(NodeTranslation &node, const char *argument, int64_t heads) {
  int64_t rank = node.tensorRank(argument), own = node.sizeOf(argument, rank - 3);
  Name value = node.tensor(argument);
  if (node.failed() || own == heads || own == 0)
    return value;
  Name shape = node.emit("Shape", {value});
  auto sizes = [&](int64_t begin, int64_t end) {
    return node.emit("Slice", {shape, node.constant({begin}), node.constant({end})});
  };
  auto joined = [&](std::vector<Name> parts) { return node.emit("Concat", std::move(parts), {{{"axis", 0}}}); };
  Name apart = node.emit("Unsqueeze", {value, node.constant({rank - 2})});
  Name copies = joined({sizes(0, rank - 2), node.constant({heads / own}), sizes(rank - 2, rank)});
  Name merged = joined({sizes(0, rank - 3), node.constant({heads}), sizes(rank - 2, rank)});
  return node.emit("Reshape", {node.emit("Expand", {apart, copies}), merged}, {{{"allowzero", 1}}});
}

/// Whether a mask keeps nothing of a query: which is told by the mask, since there are more scores, of all heads.
Name keepsNothing(NodeTranslation &node, ScalarType type) {
  const bool isBoolean = node.metaOf("attn_mask").type == ScalarType::Bool;
  Name mask = isBoolean ? node.cast(node.tensor("attn_mask"), ScalarType::F32) : node.operand("attn_mask", type);
  Name highest = node.emit("ReduceMax", {mask, node.constant({-1})}, {{{"keepdims", 1}}});
  return node.emit("Equal", {highest, isBoolean ? node.constant(ScalarType::F32, 0) : node.constant(type, -INFINITY)});
}

/// softmax(scale · query · keyᵀ, masked) · value, over the last two dimensions. A given mask may leave rows of nothing.
void attention(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  int64_t rank = node.tensorRank("query");
  std::vector<int64_t> order;
  for (int64_t dim = 0; dim < rank; ++dim)
    order.push_back(dim < rank - 2 ? dim : 2 * rank - 3 - dim);
  double size = static_cast<double>(node.sizeOf("query", rank - 1));
  double scale = node.number("scale", 1 / std::sqrt(size));
  Name query = node.tensor("query"), key = node.tensor("key"), value = node.tensor("value");
  if (node.boolean("enable_gqa", false)) {
    key = repeatHeads(node, "key", node.sizeOf("query", rank - 3));
    value = repeatHeads(node, "value", node.sizeOf("query", rank - 3));
  }
  Name turned = node.emit("Transpose", {key}, {{}, {}, {{"perm", order}}});
  Name scores = node.emit("Mul", {node.emit("MatMul", {query, turned}), node.constant(type, scale)});
  bool isBoolean = node.has("attn_mask") && node.metaOf("attn_mask").type == ScalarType::Bool;
  if (node.has("attn_mask") && !isBoolean)
    scores = node.emit("Add", {scores, node.operand("attn_mask", type)});
  if (isBoolean || node.boolean("is_causal", false)) {
    Name mask = isBoolean ? node.tensor("attn_mask") : causalMask(node, query, key);
    scores = node.emit("Where", {mask, scores, node.constant(type, -INFINITY)});
  }
  Name weights = node.has("attn_mask") ? safeSoftmaxOf(node, scores, keepsNothing(node, type), rank - 1, type)
                                       : node.emit("Softmax", {scores}, {{{"axis", -1}}});
  if (double rate = node.number("dropout_p", 0); rate != 0)
    weights = node.emit("Dropout", {weights, node.constant(ScalarType::F32, rate), node.constant(ScalarType::Bool, 1)});
  node.finish(node.emit("MatMul", {weights, value}));
}

template <const char *Matrices> void determinant(NodeTranslation &node) {
  node.finish(node.emit("Det", {node.tensor(Matrices)}));
}
constexpr char kSelf[] = "self", kA[] = "A";
} // namespace

void hyc::torchexport::addContraction(TranslationTable &table) {
  table["aten.matmul.default"] = product;
  table["aten.mm.default"] = product;
  table["aten.bmm.default"] = product;
  table["aten.linear.default"] = linear;
  table["aten.addmm.default"] = addedProduct;
  table["aten.einsum.default"] = einsum;
  table["aten.baddbmm.default"] = addedProductOf<kBatch1, kBatch2>;
  table["aten.addmv.default"] = addedProductOf<kMat, kVec>;
  table["aten.mv.default"] = productWith<kVec>;
  table["aten.dot.default"] = productWith<kTensor>;
  table["aten.vdot.default"] = productWith<kOther>; // of real numbers the same
  table["aten.linalg_multi_dot.default"] = chainedProduct;
  table["aten.outer.default"] = outer;
  table["aten.addr.default"] = addedOuter;
  table["aten.inner.default"] = inner;
  table["aten.bilinear.default"] = bilinear;
  table["aten.cosine_similarity.default"] = cosineSimilarity;
  table["aten.softmax.int"] = softmax;
  table["aten._softmax.default"] = softmax;
  table["aten.layer_norm.default"] = layerNorm;
  table["aten.native_layer_norm.default"] = layerNorm; // results 1 and 2 are for torch's own backward
  table["aten.scaled_dot_product_attention.default"] = attention;
  table["aten.det.default"] = determinant<kSelf>;
  table["aten.linalg_det.default"] = determinant<kA>;
  table["aten._linalg_det.default"] = determinant<kA>; // results 1 and 2 are for torch's own backward
}
