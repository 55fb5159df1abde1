// Shapes are small and odd, domains keep away from kinks (abs at 0, ties of max), which have tests of their own.
#include "GradientCases.h"

static GradientCase unary(const std::string &op, double low, double high) {
  return {op, {{"x", "3x5x", low, high}}, "3x5x", "%r = hyc." + op + " %x : tensor<3x5xf64>"};
}

static GradientCase binary(const std::string &op, double low, double high) {
  return {op,
          {{"x", "3x5x", low, high}, {"y", "3x5x", low + 0.1, high + 0.35}},
          "3x5x",
          "%r = hyc." + op + " %x, %y : tensor<3x5xf64>"};
}

static std::vector<GradientCase> elementwiseCases() {
  return {unary("neg", -2, 2),
          unary("abs", 0.1, 2),
          {"abs_negative", {{"x", "7x", -2, -0.1}}, "7x", "%r = hyc.abs %x : tensor<7xf64>"},
          unary("exp", -2, 2),
          unary("log", 0.2, 3),
          unary("sqrt", 0.2, 3),
          unary("rsqrt", 0.2, 3),
          unary("reciprocal", 0.3, 3),
          unary("tanh", -2, 2),
          unary("erf", -2, 2),
          unary("sin", -3, 3),
          unary("cos", -3, 3),
          unary("relu", -2, 1.9),
          unary("sigmoid", -4, 4),
          unary("gelu", -3, 3),
          {"gelu_tanh", {{"x", "9x", -3, 3}}, "9x", "%r = hyc.gelu tanh %x : tensor<9xf64>"},
          binary("add", -2, 2),
          binary("sub", -2, 2),
          binary("mul", -2, 2),
          binary("div", 0.5, 3),
          binary("pow", 0.3, 2),
          binary("max", -2, 2),
          binary("min", -2, 2),
          {"mul_of_itself", {{"x", "7x"}}, "7x", "%r = hyc.mul %x, %x : tensor<7xf64>"},
          {"select",
           {{"x", "7x"}, {"y", "7x"}},
           "7x",
           "%z = hyc.constant dense<0.0> : tensor<7xf64>\n"
           "%c = hyc.compare gt %x, %z : (tensor<7xf64>, tensor<7xf64>) -> tensor<7xi1>\n"
           "%r = hyc.select %c, %x, %y : (tensor<7xi1>, tensor<7xf64>, tensor<7xf64>) -> tensor<7xf64>"},
          {"dropout",
           {{"x", "7x"}},
           "7x",
           "%m = hyc.constant dense<[true, false, true, true, false, true, true]> : tensor<7xi1>\n"
           "%r = hyc.dropout %x mask %m rate 0.2 : (tensor<7xf64>, tensor<7xi1>) -> tensor<7xf64>"},
          {"convert",
           {{"x", "7x"}},
           "7x",
           "%i = hyc.iota dim 0 : tensor<7xi64>\n"
           "%f = hyc.convert %i : (tensor<7xi64>) -> tensor<7xf64>\n"
           "%s = hyc.convert %x : (tensor<7xf64>) -> tensor<7xf64>\n"
           "%r = hyc.mul %s, %f : tensor<7xf64>"}};
}

static std::vector<GradientCase> shapeCases() {
  return {
      {"reshape", {{"x", "3x4x"}}, "2x6x", "%r = hyc.reshape %x : (tensor<3x4xf64>) -> tensor<2x6xf64>"},
      {"transpose",
       {{"x", "2x3x5x"}},
       "5x2x3x",
       "%r = hyc.transpose %x [2, 0, 1] : (tensor<2x3x5xf64>) -> tensor<5x2x3xf64>"},
      {"broadcast", {{"x", "3x5x"}}, "3x2x5x", "%r = hyc.broadcast %x [0, 2] : (tensor<3x5xf64>) -> tensor<3x2x5xf64>"},
      {"broadcast_scalar", {{"x", ""}}, "3x2x", "%r = hyc.broadcast %x [] : (tensor<f64>) -> tensor<3x2xf64>"},
      {"slice",
       {{"x", "5x7x"}},
       "2x3x",
       "%r = hyc.slice %x offsets [1, 0] strides [2, 3] : (tensor<5x7xf64>) -> tensor<2x3xf64>"},
      {"pad",
       {{"x", "2x3x"}},
       "5x8x",
       "%r = hyc.pad %x offsets [1, 0] strides [2, 3] : (tensor<2x3xf64>) -> tensor<5x8xf64>"},
      {"split",
       {{"x", "2x7x"}},
       "2x3x",
       "%a, %b, %c = hyc.split %x dim 1 : (tensor<2x7xf64>) -> (tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x3xf64>)\n"
       "%r = hyc.mul %a, %c : tensor<2x3xf64>"},
      {"concat",
       {{"x", "2x3x"}, {"y", "2x1x"}, {"z", "2x4x"}},
       "2x8x",
       "%r = hyc.concat %x, %y, %z dim 1 : (tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x4xf64>) -> tensor<2x8xf64>"},
      {"reduce_sum", {{"x", "2x3x5x"}}, "3x", "%r = hyc.reduce sum %x [0, 2] : (tensor<2x3x5xf64>) -> tensor<3xf64>"},
      {"reduce_max", {{"x", "2x3x5x"}}, "3x", "%r = hyc.reduce max %x [0, 2] : (tensor<2x3x5xf64>) -> tensor<3xf64>"},
      {"reduce_min", {{"x", "2x3x5x"}}, "2x5x", "%r = hyc.reduce min %x [1] : (tensor<2x3x5xf64>) -> tensor<2x5xf64>"},
      {"einsum_matmul",
       {{"x", "3x4x"}, {"y", "4x5x"}},
       "3x5x",
       "%r = hyc.einsum \"ik,kj->ij\" %x, %y : (tensor<3x4xf64>, tensor<4x5xf64>) -> tensor<3x5xf64>"},
      {"einsum_batched_transposed",
       {{"x", "2x3x4x"}, {"y", "2x5x4x"}},
       "5x2x3x",
       "%r = hyc.einsum \"bik,bjk->jbi\" %x, %y : (tensor<2x3x4xf64>, tensor<2x5x4xf64>) -> tensor<5x2x3xf64>"},
      {"einsum_outer",
       {{"x", "3x"}, {"y", "4x"}},
       "4x3x",
       "%r = hyc.einsum \"i,j->ji\" %x, %y : (tensor<3xf64>, tensor<4xf64>) -> tensor<4x3xf64>"},
      {"einsum_two_contracted",
       {{"x", "2x3x4x"}, {"y", "3x4x5x"}},
       "2x5x",
       "%r = hyc.einsum \"akl,klb->ab\" %x, %y : (tensor<2x3x4xf64>, tensor<3x4x5xf64>) -> tensor<2x5xf64>"},
      {"softmax", {{"x", "2x3x5x"}}, "2x3x5x", "%r = hyc.softmax %x : tensor<2x3x5xf64>"},
  };
}

static GradientCase attention(const std::string &name, const std::string &mode, int queries, int keys, int heads,
                              int groups, double dropout = 0, const std::string &mask = "") {
  auto shape = [](int sequence, int count) {
    return "2x" + std::to_string(sequence) + "x" + std::to_string(count) + "x3x";
  };
  std::string q = "tensor<" + shape(queries, heads) + "f64>", k = "tensor<" + shape(keys, groups) + "f64>";
  std::string lse = "tensor<2x" + std::to_string(heads) + "x" + std::to_string(queries) + "xf64>";
  std::string constant, random, keyType;
  if (dropout > 0) {
    constant = "%keys = hyc.constant dense<[[1, 2], [-3, 4]]> : tensor<2x2xi64>\n";
    random = " random %keys dropout " + std::to_string(dropout) + " {column = 1 : i64}";
    keyType = ", tensor<2x2xi64>";
  }
  if (!mask.empty()) {
    constant += "%mask = hyc.constant dense<[[[" + mask + "]]]> : tensor<1x1x4x4xi1>\n";
    random = " mask %mask" + random;
    keyType = ", tensor<1x1x4x4xi1>" + keyType;
  }
  return {name,
          {{"q", shape(queries, heads)}, {"k", shape(keys, groups), -1.5, 1.7}, {"v", shape(keys, groups), -1, 1.3}},
          shape(queries, heads),
          constant + "%r, %lse = hyc.attention " + mode + "%q, %k, %v scale 0.7" + random + " : (" + q + ", " + k +
              ", " + k + keyType + ") -> (" + q + ", " + lse + ")"};
}

static constexpr const char *kTwoDocuments =
    "[true, true, false, false], [true, true, false, false], [false, false, true, true], [false, false, true, true]";
static constexpr const char *kEmptyRow =
    "[true, false, true, true], [false, false, false, false], [false, false, true, false], [true, true, true, true]";

static std::vector<GradientCase> compositeCases() {
  return {
      {"layer_norm",
       {{"x", "2x3x5x"}, {"scale", "5x", 0.5, 1.5}, {"bias", "5x"}},
       "2x3x5x",
       "%r, %mean, %rstd = hyc.layer_norm %x, %scale, %bias epsilon 1.0e-5 : "
       "(tensor<2x3x5xf64>, tensor<5xf64>, tensor<5xf64>) -> (tensor<2x3x5xf64>, tensor<2x3xf64>, tensor<2x3xf64>)"},
      {"rms_norm",
       {{"x", "2x3x5x"}, {"scale", "5x", 0.5, 1.5}},
       "2x3x5x",
       "%r, %rstd = hyc.rms_norm %x, %scale epsilon 1.0e-5 : "
       "(tensor<2x3x5xf64>, tensor<5xf64>) -> (tensor<2x3x5xf64>, tensor<2x3xf64>)"},
      {"group_norm",
       {{"x", "2x3x2x5x"}, {"scale", "3x2x", 0.5, 1.5}, {"bias", "3x2x"}},
       "2x3x2x5x",
       "%r, %mean, %rstd = hyc.group_norm %x, %scale, %bias epsilon 1.0e-5 : (tensor<2x3x2x5xf64>, tensor<3x2xf64>, "
       "tensor<3x2xf64>) -> (tensor<2x3x2x5xf64>, tensor<2x3xf64>, tensor<2x3xf64>)"},
      {"rope",
       {{"x", "2x3x2x6x"}},
       "2x3x2x6x",
       "%cos, %sin = hyc.rotary_table [1.0, 0.1, 0.01] factor 1.5 : () -> (tensor<3x3xf64>, tensor<3x3xf64>)\n"
       "%r = hyc.rope %x, %cos, %sin : (tensor<2x3x2x6xf64>, tensor<3x3xf64>, tensor<3x3xf64>) -> "
       "tensor<2x3x2x6xf64>"},
      {"rope_partial_inverse",
       {{"x", "2x3x2x7x"}},
       "2x3x2x7x",
       "%cos, %sin = hyc.rotary_table [0.7, 0.2] factor 1.0 : () -> (tensor<3x2xf64>, tensor<3x2xf64>)\n"
       "%r = hyc.rope inverse %x, %cos, %sin : (tensor<2x3x2x7xf64>, tensor<3x2xf64>, tensor<3x2xf64>) -> "
       "tensor<2x3x2x7xf64>"},
      attention("attention", "", 4, 4, 2, 2),
      attention("attention_causal", "causal ", 4, 4, 3, 3),
      attention("attention_causal_with_earlier_keys", "causal ", 3, 5, 2, 2),
      attention("attention_grouped_heads", "causal ", 4, 4, 4, 2),
      attention("attention_dropout", "", 4, 5, 2, 2, 0.3),
      attention("attention_dropout_grouped_heads", "causal ", 4, 4, 4, 2, 0.3),
      attention("attention_mask_of_two_documents", "causal ", 4, 4, 4, 2, 0, kTwoDocuments),
      attention("attention_mask_with_an_empty_row_and_dropout", "", 4, 4, 2, 2, 0.3, kEmptyRow),
      {"embedding",
       {{"table", "5x3x"}},
       "2x3x3x",
       "%ids = hyc.constant dense<[[0, 3, 3], [4, 0, 3]]> : tensor<2x3xi64>\n"
       "%r = hyc.embedding %ids, %table : (tensor<2x3xi64>, tensor<5x3xf64>) -> tensor<2x3x3xf64>"},
      {"cross_entropy",
       {{"logits", "2x3x7x"}},
       "",
       "%labels = hyc.constant dense<[[0, 6, -100], [3, -100, 2]]> : tensor<2x3xi64>\n"
       "%r, %n, %lse = hyc.cross_entropy %logits, %labels : (tensor<2x3x7xf64>, tensor<2x3xi64>) -> "
       "(tensor<f64>, tensor<i64>, tensor<2x3xf64>)"},
  };
}

const std::vector<GradientCase> &gradientCases() {
  static const std::vector<GradientCase> cases = [] {
    std::vector<GradientCase> all = elementwiseCases();
    for (auto more : {shapeCases(), compositeCases(), indexGradientCases()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return cases;
}
