// Scans, step by step: each op of the body by its own handler.
#include "Ops/OpTable.h"
#include "dialects/Hyc/HycDialect.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

namespace {
/// One scan being executed.
class Steps {
public:
  explicit Steps(OpCall &call) : call(call), scan(cast<ScanOp>(call.op)) {}

  LogicalResult run() {
    SmallVector<Tensor> carried(call.operands.take_front(scan.countCarried()));
    for (unsigned index = scan.countCarried(); index < scan->getNumResults(); ++index)
      stacks.push_back(call.makeResult(index));
    const auto steps = static_cast<int64_t>(scan.getSteps());
    for (int64_t i = 0; i < steps; ++i)
      if (failed(runStep(scan.getReverse() ? steps - 1 - i : i, carried)))
        return failure();
    call.results.append(carried.begin(), carried.end());
    call.results.append(stacks.begin(), stacks.end());
    return success();
  }

private:
  LogicalResult runStep(int64_t t, SmallVectorImpl<Tensor> &carried) {
    values.clear();
    for (auto [argument, value] : llvm::zip_equal(scan.getCarriedArguments(), carried))
      values[argument] = value;
    const unsigned first = scan.countCarried();
    for (auto [index, argument] : llvm::enumerate(scan.getElementArguments()))
      values[argument] = element(call.operands[first + index], t);
    for (auto [argument, value] :
         llvm::zip_equal(scan.getInvariantArguments(), call.operands.take_back(scan.getInvariants().size())))
      values[argument] = value;
    for (Operation &op : scan.getStep().without_terminator())
      if (failed(execute(&op)))
        return failure();
    for (auto [index, value] : llvm::enumerate(scan.getYielded()))
      if (const Tensor &given = values[value]; index < carried.size())
        carried[index] = given;
      else
        insert(stacks[index - carried.size()], given, t);
    return success();
  }

  LogicalResult execute(Operation *op) {
    OpHandler handler = OpTable::get().find(op);
    if (!handler)
      return op->emitError("the interpreter cannot execute '") << op->getName() << "' in a scan";
    SmallVector<Tensor> operands, results;
    for (Value operand : op->getOperands())
      operands.push_back(values[operand]);
    OpCall inner{op, operands, results, call.device};
    if (failed(handler(inner)))
      return failure();
    for (auto [value, result] : llvm::zip_equal(op->getResults(), results)) {
      result.roundElements();
      values[value] = result;
    }
    return success();
  }

  static Tensor element(const Tensor &sequence, int64_t t) {
    SmallVector<int64_t> offsets(sequence.getTensorRank(), 0), strides(sequence.getTensorRank(), 1),
        shape(sequence.getShape());
    offsets[0] = t;
    shape[0] = 1;
    return sequence.sliced(offsets, strides, shape).reshaped(sequence.getShape().drop_front());
  }

  static void insert(Tensor &stack, const Tensor &given, int64_t t) {
    SmallVector<int64_t> offsets(stack.getTensorRank(), 0), strides(stack.getTensorRank(), 1), shape(stack.getShape());
    offsets[0] = t;
    shape[0] = 1;
    stack.insert(given.reshaped(shape), offsets, strides);
  }

  OpCall &call;
  ScanOp scan;
  SmallVector<Tensor> stacks;
  llvm::DenseMap<Value, Tensor> values; ///< of the present step
};
} // namespace

static LogicalResult evaluateScan(OpCall &call) { return Steps(call).run(); }

void hyc::interpreter::addLoopOps(OpTable &table) { table.add<ScanOp>(evaluateScan); }
