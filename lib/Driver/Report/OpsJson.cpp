// A table of what a stage's functions call, and each function as a list of its rows:
//
//   {"format_version": 1, "plan_hash": "…", "machine": "…", "stages": [{"stage": 0,
//     "calls": [{"kind": "kernel", "what": "gemm", "op": "h.0.mlp.c_fc", "layer": "h.0", "operations": …, "bytes": …,
//                "roof_seconds": …, "bound": "products"},
//               {"kind": "exchange", "what": "all_reduce", "op": …, "layer": …, "bytes": …, "roof_seconds": …,
//                "cause": …, "because": …, "axes": ["tp"], "stages": [], "members": 2, "message_bytes": …}, …],
//     "functions": {"forward": [0, 1, 1, -2, …], …}}]}
//
// A negative number is the wait for a row that was started before: -1 for row 0, -2 for row 1.
#include "Report/OpsJson.h"

#include "hyc/Analysis/TimedCalls.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <map>
#include <tuple>

using namespace mlir;
using namespace hyc;
namespace json = llvm::json;

static std::string utf8(StringRef text) { return json::fixUTF8(text); }

static bool isNumber(StringRef part) { return !part.empty() && llvm::all_of(part, llvm::isDigit); }

std::string hyc::layerOf(StringRef id) {
  for (StringRef derived : {".grad", ".again", ".offloaded", ".back"}) // what passes make of an op
    id = id.split(derived).first;
  SmallVector<StringRef> parts;
  id.split(parts, '.');
  for (size_t i = 0; i < parts.size(); ++i)
    if (isNumber(parts[i]))
      return llvm::join(ArrayRef(parts).take_front(i + 1), ".");
  return parts.size() > 1 ? llvm::join(ArrayRef(parts).drop_back(), ".") : id.str();
}

static const char *nameOf(TimedCall::Kind kind) {
  switch (kind) {
  case TimedCall::Kind::Kernel:
    return "kernel";
  case TimedCall::Kind::Exchange:
    return "exchange";
  case TimedCall::Kind::Move:
    return "move";
  case TimedCall::Kind::Wait: // has no row of its own
    break;
  }
  return "";
}

namespace {
/// The rows of a stage; equal ones are one.
class CallTable {
public:
  int64_t rowOf(const TimedCall &call) {
    rank::CollectiveOp collective = call.collective;
    auto key = std::make_tuple(call.what, call.id, call.bytes, call.operations,
                               collective ? static_cast<int64_t>(collective.getNumber()) : 0);
    auto [found, isNew] = numbers.try_emplace(key, static_cast<int64_t>(rows.size()));
    if (isNew)
      rows.push_back(&call);
    return found->second;
  }

  void write(json::OStream &json) const {
    for (const TimedCall *call : rows)
      json.object([&] { writeRow(json, *call); });
  }

private:
  static void writeRow(json::OStream &json, const TimedCall &call) {
    json.attribute("kind", nameOf(call.kind));
    json.attribute("what", utf8(call.what));
    json.attribute("op", utf8(call.id));
    json.attribute("layer", utf8(layerOf(call.id)));
    json.attribute("operations", std::llround(call.operations));
    json.attribute("bytes", std::llround(call.bytes));
    json.attribute("roof_seconds", call.seconds);
    json.attribute("bound", getName(call.bound));
    if (rank::CollectiveOp collective = call.collective) {
      json.attribute("cause", utf8(collective.getCause()));
      json.attribute("because", utf8(collective.getWhy()));
      json.attributeArray("axes", [&] {
        for (StringAttr axis : collective.getGroup().getAxes().getAxes())
          json.value(utf8(axis.getValue()));
      });
      json.attributeArray("stages", [&] {
        for (int64_t stage : collective.getGroup().getStages())
          json.value(stage);
      });
      json.attribute("members", call.members);
      json.attribute("message_bytes", std::llround(call.message));
    }
  }

  std::map<std::tuple<std::string, std::string, double, double, int64_t>, int64_t> numbers;
  std::vector<const TimedCall *> rows;
};
} // namespace

static void writeStage(json::OStream &json, rank::ProgramOp program, const MachineRates &rates) {
  std::vector<TimedFunction> functions = timedCalls(program, rates);
  CallTable table;
  std::map<StringRef, std::vector<int64_t>> rows;
  for (const auto &[name, calls] : functions)
    for (const TimedCall &call : calls)
      rows[name].push_back(call.kind == TimedCall::Kind::Wait ? -1 - table.rowOf(calls[call.started])
                                                              : table.rowOf(call));
  json.object([&] {
    json.attribute("stage", static_cast<int64_t>(program.getStage()));
    json.attributeArray("calls", [&] { table.write(json); });
    json.attributeObject("functions", [&] {
      for (const auto &[name, numbers] : rows)
        json.attributeArray(name, [&] {
          for (int64_t number : numbers)
            json.value(number);
        });
    });
  });
}

std::string hyc::writeOpsJson(ModuleOp module, const MachineRates &rates, StringRef planHash) {
  std::string text;
  llvm::raw_string_ostream os(text);
  json::OStream json(os);
  json.object([&] {
    json.attribute("format_version", 1);
    json.attribute("plan_hash", planHash);
    json.attribute("machine", utf8(rates.name));
    json.attributeArray("stages", [&] {
      for (auto program : module.getOps<rank::ProgramOp>())
        writeStage(json, program, rates);
    });
  });
  os << "\n";
  return text;
}
