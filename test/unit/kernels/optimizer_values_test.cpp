// Every optimizer against values that hyc did not compute: torch.optim's, and those of the papers' formulas in numpy.
#include "kernel_test.h"
#include "kernels/adamw/reference.h"
#include "kernels/lamb/reference.h"
#include "kernels/lion/reference.h"
#include "kernels/sgd/reference.h"
#include "kernels/sum_of_squares/reference.h"

namespace hyc::kernels {
namespace {

constexpr int64_t kElements = 6, kSteps = 4;

struct Case {
  std::string optimizer, variant;
  double after[kSteps][kElements];  // the parameter after each step
};

const Case kCases[] = {
#include "optimizer_values.inc"
};

// As in optimizer_values.py.
const double kParam[kElements] = {-1.25, 2.0, 0.375, 0.0, -0.5, 3.0};
const double kGrads[kSteps][kElements] = {{1.25, 1.0, 1.5, 0.0, -2.0, 0.125},
                                          {1.125, -1.75, -1.5, 0.0, 0.25, -0.5},
                                          {-0.75, 0.5, 0.0, 0.0, 1.0, 2.0},
                                          {2.0, 0.25, -0.125, 0.0, -0.5, -1.0}};
constexpr double kScale = 0.5, kLr = 0.01;

template <typename T>
struct Elements {
  T param[kElements], grad[kElements], m[kElements] = {}, v[kElements] = {};
};

// One step by the reference, in f64.
struct ByReference {
  using T = double;
  static void adamw(const AdamWParams &p, Elements<T> &e) { reference::adamw(p, kElements, e.param, e.grad, e.m, e.v); }
  static void sgd(const SgdParams &p, Elements<T> &e) { reference::sgd(p, kElements, e.param, e.grad, e.m); }
  static void lion(const LionParams &p, Elements<T> &e) { reference::lion(p, kElements, e.param, e.grad, e.m); }
  static void lamb(const LambParams &p, const TrustRatioBounds &bounds, Elements<T> &e) {
    reference::lambDirection(p, kElements, e.param, e.grad, e.m, e.v);
    const auto squares = [](const T *x) {
      int64_t exact[kExactSumLimbs] = {};
      reference::addSumOfSquares(x, kElements, exact);
      return reference::roundExactSum(exact);
    };
    const double ratio = trustRatio(bounds, squares(e.param), squares(e.grad));
    reference::lambUpdate(kLr * ratio, kElements, e.param, e.grad);
  }
};

// One step by the kernel, in f32.
struct ByKernel {
  using T = float;
  static void adamw(const AdamWParams &p, Elements<T> &e) { kernels::adamw(p, kElements, e.param, e.grad, e.m, e.v); }
  static void sgd(const SgdParams &p, Elements<T> &e) { kernels::sgd(p, kElements, e.param, e.grad, e.m); }
  static void lion(const LionParams &p, Elements<T> &e) { kernels::lion(p, kElements, e.param, e.grad, e.m); }
  static void lamb(const LambParams &p, const TrustRatioBounds &bounds, Elements<T> &e) {
    lambDirection(p, kElements, e.param, e.grad, e.m, e.v);
    const auto squares = [](const T *x) {
      int64_t exact[kExactSumLimbs];
      sumOfSquares(x, kElements, exact, WriteMode::kOverwrite);
      return roundExactSum(exact);
    };
    const double ratio = trustRatio(bounds, squares(e.param), squares(e.grad));
    lambUpdate(kLr * ratio, kElements, e.param, e.grad);
  }
};

TrustRatioBounds boundsOf(const std::string &variant) {
  TrustRatioBounds bounds;
  std::sscanf(variant.c_str(), "bounds %lf %lf", &bounds.least, &bounds.most);
  return bounds;
}

template <typename By>
void step(const Case &each, int64_t number, Elements<typename By::T> &e) {
  if (each.optimizer == "sgd") {
    SgdParams p;
    p.lr = kLr, p.momentum = 0.9, p.weightDecay = 0.1, p.step = number, p.gradScale = kScale;
    By::sgd(p, e);
  } else if (each.optimizer == "lion") {
    By::lion({kLr, 0.9, 0.99, 0.1, kScale}, e);
  } else if (each.optimizer == "lamb") {
    By::lamb({0.9, 0.99, 1e-6, 0.1, number, kScale, each.variant != "uncorrected"}, boundsOf(each.variant), e);
  } else {
    const DecayKind decay = each.optimizer == "adam" ? DecayKind::kAddedToGradient : DecayKind::kDecoupled;
    By::adamw({kLr, 0.9, 0.99, 1e-6, 0.1, number, kScale, decay, true}, e);
  }
}

template <typename By>
void expectValues(double tolerance) {
  for (const Case &each : kCases) {
    Elements<typename By::T> e;
    for (int64_t i = 0; i < kElements; ++i) e.param[i] = static_cast<typename By::T>(kParam[i]);
    for (int64_t s = 0; s < kSteps; ++s) {
      for (int64_t i = 0; i < kElements; ++i) e.grad[i] = static_cast<typename By::T>(kGrads[s][i]);
      step<By>(each, s + 1, e);
      for (int64_t i = 0; i < kElements; ++i) {
        EXPECT_NEAR(e.param[i], each.after[s][i], tolerance)
            << each.optimizer << " " << each.variant << ", step " << s + 1 << ", element " << i;
      }
    }
  }
}

TEST(OptimizerValues, ReferencesAreThoseOfTorchAndThePapers) { expectValues<ByReference>(1e-14); }
TEST(OptimizerValues, KernelsAreThoseOfTorchAndThePapers) { expectValues<ByKernel>(1e-6); }

}  // namespace
}  // namespace hyc::kernels
