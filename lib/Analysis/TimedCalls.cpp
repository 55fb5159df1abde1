// What marks of a profile stand for.
#include "hyc/Analysis/TimedCalls.h"

#include "FunctionCosts.h"
#include "hyc/Analysis/KernelCall.h"
#include "hyc/Analysis/MemoryAccount.h"
#include "kernels/descriptions.h"

using namespace mlir;
using namespace hyc;

bool hyc::isFusedAttention(llvm::StringRef kernel) {
  const kernels::KernelDescription *description = kernels::findKernel(kernel);
  return description && description->isAttention;
}

bool hyc::isTimed(Operation *op) {
  return isa<rank::StartOp, rank::MoveOp, rank::WaitOp>(op) ||
         (!isa<rank::InvokeOp>(op) && !rank::writtenBuffers(op).empty());
}

static TimedCall::Kind kindOf(const Event &event) {
  if (event.kind == Event::Kind::Wait)
    return TimedCall::Kind::Wait;
  if (event.kind == Event::Kind::Exchange)
    return TimedCall::Kind::Exchange;
  return isa<rank::MoveOp>(event.op) ? TimedCall::Kind::Move : TimedCall::Kind::Kernel;
}

static TimedCall describe(const Event &event, dist::MeshOp mesh) {
  TimedCall call;
  call.kind = kindOf(event);
  call.started = event.started;
  if (call.kind == TimedCall::Kind::Wait)
    return call;
  call.what = callName(event.op);
  call.id = idOf(event);
  call.bound = event.bound;
  call.seconds = event.seconds;
  call.operations = event.operations;
  call.bytes = event.bytes;
  call.collective = event.collective;
  if (call.collective) {
    ExchangeAccount account = accountExchange(cast<rank::StartOp>(event.op), call.collective, mesh);
    call.message = static_cast<double>(account.bytes);
    call.members = account.members;
  }
  return call;
}

std::vector<TimedFunction> hyc::timedCalls(rank::ProgramOp program, const MachineRates &rates) {
  std::vector<TimedFunction> functions;
  dist::MeshOp mesh = dist::MeshOp::find(program->getParentOfType<ModuleOp>());
  SymbolTable symbols(program);
  FunctionCosts costs(program, symbols, rates);
  for (const std::string &name : program.getFunctionNames())
    if (auto func = symbols.lookup<rank::FuncOp>(name)) {
      functions.push_back({name, {}});
      for (const Event &event : costs.of(func))
        functions.back().second.push_back(describe(event, mesh));
    }
  return functions;
}
