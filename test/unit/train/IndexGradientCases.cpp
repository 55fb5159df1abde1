// Functions, windows, ops by number and scans: one row each, with an op's variants beside it.
#include "GradientCases.h"

static GradientCase function(const std::string &op, double low, double high) {
  return {op, {{"x", "3x5x", low, high}}, "3x5x", "%r = hyc." + op + " %x : tensor<3x5xf64>"};
}

/// x times a step of x, away from its jumps: the step counts as a constant.
static GradientCase step(const std::string &op) {
  return {
      op, {{"x", "7x", 1.1, 1.4}}, "7x", "%s = hyc." + op + " %x : tensor<7xf64>\n%r = hyc.mul %x, %s : tensor<7xf64>"};
}

static std::vector<GradientCase> functionCases() {
  return {function("tan", -1, 1),
          function("asin", -0.8, 0.8),
          function("acos", -0.8, 0.8),
          function("atan", -2, 2),
          function("sinh", -2, 2),
          function("cosh", -2, 2),
          function("asinh", -2, 2),
          function("acosh", 1.3, 3),
          function("atanh", -0.8, 0.8),
          function("softplus", -3, 3),
          function("lgamma", 0.3, 4),
          function("digamma", 0.4, 4),
          step("floor"),
          step("ceil"),
          step("round"),
          step("sign"),
          // Quotients between 1.1 and 1.9 and their negatives: away from the jumps.
          {"rem", {{"x", "7x", -2.6, -2.3}, {"y", "7x", 1.5, 1.9}}, "7x", "%r = hyc.rem %x, %y : tensor<7xf64>"},
          {"reduce_prod",
           {{"x", "2x3x5x", 0.5, 1.5}},
           "3x",
           "%r = hyc.reduce prod %x [0, 2] : (tensor<2x3x5xf64>) -> tensor<3xf64>"}};
}

/// Two zeros in one product, one in another, none in the third.
static GradientCase productWithZeros() {
  return {"reduce_prod_of_zeros",
          {{"x", "3x4x", 0.5, 1.5}},
          "3x",
          "%m = hyc.constant dense<[[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]> : "
          "tensor<3x4xf64>\n%z = hyc.constant dense<0.0> : tensor<3x4xf64>\n"
          "%c = hyc.compare eq %m, %z : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xi1>\n"
          "%y = hyc.select %c, %z, %x : (tensor<3x4xi1>, tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xf64>\n"
          "%r = hyc.reduce prod %y [1] : (tensor<3x4xf64>) -> tensor<3xf64>"};
}

static GradientCase convolution(const std::string &name, const std::string &op, const std::string &lhs,
                                const std::string &rhs, const std::string &result, const std::string &windows) {
  auto type = [](const std::string &shape) { return "tensor<" + shape + "f64>"; };
  return {name,
          {{"x", lhs, -1, 1.2}, {"w", rhs, -0.9, 1.1}},
          result,
          "%r = hyc." + op + " %x, %w " + windows + " : (" + type(lhs) + ", " + type(rhs) + ") -> " + type(result)};
}

static std::vector<GradientCase> windowCases() {
  const std::string plain = "strides [1] dilations [1] pads [0] [0]";
  const std::string uneven = "strides [2, 1] dilations [1, 2] pads [1, 0] [2, 1]";
  return {
      convolution("convolution_1d", "convolution", "2x3x7x", "4x3x3x", "2x4x5x", plain),
      convolution("convolution_2d", "convolution", "2x3x6x5x", "4x3x3x2x", "2x4x4x4x", uneven),
      convolution("convolution_groups", "convolution", "1x4x5x", "6x2x2x", "1x6x4x", plain + " {groups = 2 : i64}"),
      convolution("convolution_each_channel", "convolution", "2x3x5x", "3x1x3x", "2x3x5x",
                  "strides [1] dilations [1] pads [1] [1] {groups = 3 : i64}"),
      convolution("convolution_3d", "convolution", "1x2x3x4x3x", "2x2x2x2x2x", "1x2x2x3x2x",
                  "strides [1, 1, 1] dilations [1, 1, 1] pads [0, 0, 0] [0, 0, 0]"),
      convolution("convolution_transpose", "convolution_transpose", "2x4x4x4x", "4x3x3x2x", "2x3x6x5x", uneven),
      convolution("convolution_weight", "convolution_weight", "2x3x6x5x", "2x4x4x4x", "4x3x3x2x", uneven),
      {"max_pool",
       {{"x", "2x2x5x6x"}},
       "2x2x3x3x",
       "%r, %i = hyc.max_pool %x window [3, 2] strides [2, 2] dilations [1, 1] pads [1, 0] [1, 0] : "
       "(tensor<2x2x5x6xf64>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3x3xi64>)"},
      // Columns of one tap, of several that are apart, and of none.
      {"resample",
       {{"x", "2x3x4x2x"}},
       "2x5x2x2x",
       "%r = hyc.resample %x dim 1 firsts [array<i64: 0, 1, 1, 0, 1>, array<i64: 2, 1>] "
       "weights [array<f64: 0.5, 0.25, -1.0, 2.0, 0.0, 1.0, 0.75, 0.0, 0.3, 0.7>, array<f64: 1.5, -0.5, 0.0, 0.25>] "
       ": (tensor<2x3x4x2xf64>) -> tensor<2x5x2x2xf64>"}};
}

static std::vector<GradientCase> indexCases() {
  return {
      {"gather_along_a_dimension",
       {{"x", "2x5x3x"}},
       "2x2x2x3x",
       "%i = hyc.constant dense<[[4, 0], [0, 7]]> : tensor<2x2xi64>\n"
       "%r = hyc.gather %x, %i dim 1 batch 0 : (tensor<2x5x3xf64>, tensor<2x2xi64>) -> tensor<2x2x2x3xf64>"},
      {"gather_elementwise",
       {{"x", "2x4x"}},
       "2x3x",
       "%i = hyc.constant dense<[[3, 3, 1], [0, 2, 0]]> : tensor<2x3xi64>\n"
       "%r = hyc.gather %x, %i dim 1 batch 1 : (tensor<2x4xf64>, tensor<2x3xi64>) -> tensor<2x3xf64>"},
      {"scatter",
       {{"x", "2x3x2x"}},
       "2x4x2x",
       "%i = hyc.constant dense<[[3, 3, 1], [0, -1, 0]]> : tensor<2x3xi64>\n"
       "%r = hyc.scatter sum %i, %x dim 1 batch 1 : (tensor<2x3xi64>, tensor<2x3x2xf64>) -> tensor<2x4x2xf64>"},
      // Of places for which there are several, one, and an index outside.
      {"scatter_max",
       {{"x", "2x4x2x"}},
       "2x2x2x",
       "%i = hyc.constant dense<[[1, 0, 1, 1], [0, 7, 0, 1]]> : tensor<2x4xi64>\n"
       "%r = hyc.scatter max %i, %x dim 1 batch 1 : (tensor<2x4xi64>, tensor<2x4x2xf64>) -> tensor<2x2x2xf64>"},
      {"scatter_min",
       {{"x", "5x"}},
       "3x",
       "%i = hyc.constant dense<[2, 0, 2, 1, 0]> : tensor<5xi64>\n"
       "%r = hyc.scatter min %i, %x dim 0 batch 0 : (tensor<5xi64>, tensor<5xf64>) -> tensor<3xf64>"},
      {"scatter_prod",
       {{"x", "2x4x2x", 0.5, 1.5}},
       "2x3x2x",
       "%i = hyc.constant dense<[[1, 0, 1, 1], [0, 7, 0, 1]]> : tensor<2x4xi64>\n"
       "%r = hyc.scatter prod %i, %x dim 1 batch 1 : (tensor<2x4xi64>, tensor<2x4x2xf64>) -> tensor<2x3x2xf64>"},
      // One zero at place 0, two at place 1, none at place 2.
      {"scatter_prod_of_zeros",
       {{"x", "7x", 0.5, 1.5}},
       "3x",
       "%i = hyc.constant dense<[0, 0, 1, 1, 1, 2, 2]> : tensor<7xi64>\n"
       "%m = hyc.constant dense<[0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0]> : tensor<7xf64>\n"
       "%z = hyc.constant dense<0.0> : tensor<7xf64>\n"
       "%c = hyc.compare eq %m, %z : (tensor<7xf64>, tensor<7xf64>) -> tensor<7xi1>\n"
       "%y = hyc.select %c, %z, %x : (tensor<7xi1>, tensor<7xf64>, tensor<7xf64>) -> tensor<7xf64>\n"
       "%r = hyc.scatter prod %i, %y dim 0 batch 0 : (tensor<7xi64>, tensor<7xf64>) -> tensor<3xf64>"},
      {"cumsum", {{"x", "2x4x3x"}}, "2x4x3x", "%r = hyc.cumsum %x dim 1 : tensor<2x4x3xf64>"},
      {"cumsum_from_the_end", {{"x", "2x4x"}}, "2x4x", "%r = hyc.cumsum %x dim 1 reverse exclusive : tensor<2x4xf64>"},
      {"argsort",
       {{"x", "2x5x"}},
       "2x5x",
       "%i = hyc.argsort descending %x : (tensor<2x5xf64>) -> tensor<2x5xi64>\n"
       "%r = hyc.gather %x, %i dim 1 batch 1 : (tensor<2x5xf64>, tensor<2x5xi64>) -> tensor<2x5xf64>"},
      {"argsort_first",
       {{"x", "2x5x"}},
       "2x3x",
       "%i = hyc.argsort descending %x first 3 : (tensor<2x5xf64>) -> tensor<2x3xi64>\n"
       "%r = hyc.gather %x, %i dim 1 batch 1 : (tensor<2x5xf64>, tensor<2x3xi64>) -> tensor<2x3xf64>"}};
}

/// Rows of three experts, of one that has none, and of no expert.
static GradientCase experts(const std::string &name, const std::string &form, const std::string &matrices) {
  return {name,
          {{"x", "6x3x"}, {"w", matrices}},
          "6x2x",
          "%e = hyc.constant dense<[1, 3, 0, 1, 4, 1]> : tensor<6xi64>\n%r = hyc.expert_matmul " + form +
              " %x, %w, %e : (tensor<6x3xf64>, tensor<" + matrices + "f64>, tensor<6xi64>) -> tensor<6x2xf64>"};
}

static std::vector<GradientCase> expertCases() {
  return {experts("expert_matmul", "", "4x3x2x"), experts("expert_matmul_transposed", "transposed", "4x2x3x")};
}

/// Steps of h = tanh(v · (h w) + b + x_t): a product, a sum and an elementwise use of what all steps share.
static GradientCase steps(const std::string &name, const std::string &direction, const std::string &result) {
  return {
      name,
      {{"x", "4x2x3x", -1, 1}, {"h", "2x3x", -1, 1}, {"w", "3x3x", -0.8, 0.9}, {"v", "2x3x", 0.4, 1.2}, {"b", "3x"}},
      "2x3x",
      "%last, %all = hyc.scan 4 " + direction + R"( init(%h) over(%x) with(%w, %v, %b)
              : (tensor<2x3xf64>, tensor<4x2x3xf64>, tensor<3x3xf64>, tensor<2x3xf64>, tensor<3xf64>)
              -> (tensor<2x3xf64>, tensor<4x2x3xf64>) {
          ^bb0(%own: tensor<2x3xf64>, %e: tensor<2x3xf64>, %in: tensor<3x3xf64>, %by: tensor<2x3xf64>, %bias: tensor<3xf64>):
            %0 = hyc.einsum "bk,kn->bn" %own, %in : (tensor<2x3xf64>, tensor<3x3xf64>) -> tensor<2x3xf64>
            %1 = hyc.mul %by, %0 : tensor<2x3xf64>
            %2 = hyc.broadcast %bias [1] : (tensor<3xf64>) -> tensor<2x3xf64>
            %3 = hyc.add %1, %2 : tensor<2x3xf64>
            %4 = hyc.add %3, %e : tensor<2x3xf64>
            %5 = hyc.tanh %4 : tensor<2x3xf64>
            %6 = hyc.mul %5, %e : tensor<2x3xf64>
            hyc.yield %5, %6 : tensor<2x3xf64>, tensor<2x3xf64>
          }
          %sum = hyc.reduce sum %all [0] : (tensor<4x2x3xf64>) -> tensor<2x3xf64>
          )" +
          result};
}

/// Two carried values that change places, and one that no step changes.
static GradientCase carriedValues() {
  return {"scan_of_carried_values",
          {{"x", "3x4x", -1, 1}, {"a", "4x"}, {"c", "4x"}, {"k", "4x"}},
          "4x",
          R"(%1, %2, %3 = hyc.scan 3 init(%a, %c, %k) over(%x)
              : (tensor<4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<3x4xf64>)
              -> (tensor<4xf64>, tensor<4xf64>, tensor<4xf64>) {
          ^bb0(%u: tensor<4xf64>, %v: tensor<4xf64>, %w: tensor<4xf64>, %e: tensor<4xf64>):
            %0 = hyc.mul %u, %e : tensor<4xf64>
            %s = hyc.sin %0 : tensor<4xf64>
            %t = hyc.mul %s, %w : tensor<4xf64>
            hyc.yield %v, %t, %w : tensor<4xf64>, tensor<4xf64>, tensor<4xf64>
          }
          %4 = hyc.add %1, %2 : tensor<4xf64>
          %r = hyc.mul %4, %3 : tensor<4xf64>)"};
}

/// A product of what all steps share with numbers that the body has itself.
static GradientCase constantProduct() {
  return {"scan_of_a_product_with_a_constant",
          {{"h", "2x3x", -1, 1}, {"w", "3x3x", -0.8, 0.9}},
          "2x3x",
          R"(%r = hyc.scan 3 init(%h) with(%w) : (tensor<2x3xf64>, tensor<3x3xf64>) -> tensor<2x3xf64> {
          ^bb0(%own: tensor<2x3xf64>, %in: tensor<3x3xf64>):
            %c = hyc.constant dense<[[1.0, 2.0, -1.0], [0.5, 0.0, 1.0]]> : tensor<2x3xf64>
            %0 = hyc.einsum "bk,kn->bn" %c, %in : (tensor<2x3xf64>, tensor<3x3xf64>) -> tensor<2x3xf64>
            %1 = hyc.mul %0, %own : tensor<2x3xf64>
            %2 = hyc.sin %1 : tensor<2x3xf64>
            hyc.yield %2 : tensor<2x3xf64>
          })"};
}

static std::vector<GradientCase> scanCases() {
  const std::string both = "%r = hyc.add %last, %sum : tensor<2x3xf64>";
  return {steps("scan", "", both),
          steps("scan_reverse", "reverse", both),
          steps("scan_to_the_last", "", "%r = hyc.sin %last : tensor<2x3xf64>"),
          steps("scan_of_all_steps", "reverse", "%r = hyc.sin %sum : tensor<2x3xf64>"),
          carriedValues(),
          constantProduct()};
}

std::vector<GradientCase> indexGradientCases() {
  std::vector<GradientCase> all = functionCases();
  all.push_back(productWithZeros());
  for (auto more : {windowCases(), indexCases(), expertCases(), scanCases()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}
