// RaiseGelu: expressions are read as polynomials in x and t = tanh(…) or erf(…), so that every spelling of the same
// polynomial is the same.
#include "DeadOps.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/ConstantEvaluation.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Support/OpIds.h"
#include "hyc/Transforms/Model/Passes.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"
#include <cmath>
#include <map>

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_RAISEGELU
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

namespace {
/// Coefficients by the powers of x and t.
using Polynomial = std::map<std::pair<int, int>, double>;

constexpr int kMaxPower = 4;

Polynomial add(const Polynomial &a, const Polynomial &b, double factor) {
  Polynomial sum = a;
  for (auto &[powers, coefficient] : b)
    sum[powers] += factor * coefficient;
  return sum;
}

std::optional<Polynomial> multiply(const Polynomial &a, const Polynomial &b) {
  Polynomial product;
  for (auto &[powersA, coefficientA] : a)
    for (auto &[powersB, coefficientB] : b) {
      std::pair<int, int> powers{powersA.first + powersB.first, powersA.second + powersB.second};
      if (powers.first > kMaxPower || powers.second > kMaxPower)
        return std::nullopt;
      product[powers] += coefficientA * coefficientB;
    }
  return product;
}

/// Reads values as polynomials in `x` and `t`; nothing where anything else is in them.
class Reader {
public:
  Reader(Value x, Value t) : x(x), t(t) {}

  std::optional<Polynomial> read(Value value, int depth = 0) const {
    if (value == x)
      return Polynomial{{{1, 0}, 1.0}};
    if (value == t)
      return Polynomial{{{0, 1}, 1.0}};
    if (std::optional<double> number = evaluateSplat(value))
      return Polynomial{{{0, 0}, *number}};
    Operation *op = value.getDefiningOp();
    if (!op || depth > 12)
      return std::nullopt;
    if (auto power = dyn_cast<PowOp>(op))
      return readPower(power, depth);
    if (!isa<AddOp, SubOp, MulOp, DivOp>(op))
      return std::nullopt;
    std::optional<Polynomial> a = read(op->getOperand(0), depth + 1), b = a ? read(op->getOperand(1), depth + 1) : a;
    if (!b)
      return std::nullopt;
    if (isa<AddOp, SubOp>(op))
      return add(*a, *b, isa<AddOp>(op) ? 1.0 : -1.0);
    if (isa<MulOp>(op))
      return multiply(*a, *b);
    if (b->size() != 1 || b->begin()->first != std::pair{0, 0} || b->begin()->second == 0)
      return std::nullopt;
    return add({}, *a, 1 / b->begin()->second);
  }

private:
  std::optional<Polynomial> readPower(PowOp op, int depth) const {
    std::optional<double> exponent = evaluateSplat(op.getRhs());
    if (!exponent || *exponent < 1 || *exponent > kMaxPower || *exponent != std::floor(*exponent))
      return std::nullopt;
    std::optional<Polynomial> base = read(op.getLhs(), depth + 1), result = base;
    for (int i = 1; result && i < static_cast<int>(*exponent); ++i)
      result = multiply(*result, *base);
    return result;
  }

  Value x, t;
};

/// Equal up to what writing a constant in single precision loses.
bool agrees(const Polynomial &found, const Polynomial &expected) {
  auto close = [](double a, double b) { return std::fabs(a - b) <= 1e-5 * std::max(std::fabs(b), 1e-3); };
  for (auto &[powers, coefficient] : found)
    if (auto entry = expected.find(powers); !close(coefficient, entry == expected.end() ? 0.0 : entry->second))
      return false;
  return llvm::all_of(expected, [&](auto &entry) { return found.count(entry.first) != 0; });
}

const double kSqrtHalf = std::sqrt(0.5), kSqrtTwoOverPi = std::sqrt(2 / M_PI);
const Polynomial kErfArgument{{{1, 0}, kSqrtHalf}};
const Polynomial kTanhArgument{{{1, 0}, kSqrtTwoOverPi}, {{3, 0}, 0.044715 * kSqrtTwoOverPi}};
const Polynomial kGelu{{{1, 0}, 0.5}, {{1, 1}, 0.5}};

/// Every value below an expression that could be its x, nearest first.
void collectBases(Value value, llvm::SetVector<Value> &bases, int depth = 0) {
  if (evaluateSplat(value) || depth > 8)
    return;
  Operation *op = value.getDefiningOp();
  bool inner = op && isa<AddOp, SubOp, MulOp, DivOp, PowOp>(op);
  bases.insert(value);
  if (inner)
    for (Value operand : op->getOperands())
      collectBases(operand, bases, depth + 1);
}

/// The x of which the operand of tanh or erf is gelu's argument, or null.
Value findBase(Operation *curve) {
  llvm::SetVector<Value> bases;
  collectBases(curve->getOperand(0), bases);
  const Polynomial &expected = isa<TanhOp>(curve) ? kTanhArgument : kErfArgument;
  for (Value base : bases)
    if (std::optional<Polynomial> argument = Reader(base, Value()).read(curve->getOperand(0));
        argument && agrees(*argument, expected))
      return base;
  return {};
}

/// A value that x and t reach by few sums and products, and that is gelu.
Operation *findRoot(Value x, Value t) {
  llvm::SetVector<Operation *> reached;
  for (Operation *user : t.getUsers())
    reached.insert(user);
  for (size_t i = 0; i < reached.size() && i < 16; ++i) {
    Operation *op = reached[i];
    if (!isa<AddOp, MulOp, SubOp, DivOp>(op))
      continue;
    if (std::optional<Polynomial> value = Reader(x, t).read(op->getResult(0)); value && agrees(*value, kGelu))
      return op;
    for (Operation *user : op->getResult(0).getUsers())
      reached.insert(user);
  }
  return nullptr;
}

struct RaiseGelu : hyc::impl::RaiseGeluBase<RaiseGelu> {
  void runOnOperation() override {
    OpIds ids(getOperation());
    SmallVector<Operation *> curves;
    walkFunctions(getOperation(), [&](Operation *op) {
      if (isa<TanhOp, ErfOp>(op))
        curves.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (Operation *curve : curves) {
      Value x = findBase(curve);
      Operation *root = x ? findRoot(x, curve->getResult(0)) : nullptr;
      if (!root)
        continue;
      rewriter.setInsertionPoint(root);
      auto gelu = GeluOp::create(rewriter, root->getLoc(), x.getType(), x, isa<TanhOp>(curve));
      ids.assign(gelu, getIdPath(root));
      rewriter.replaceOp(root, gelu.getResult());
    }
    eraseDeadOps(getOperation());
  }
};
} // namespace
