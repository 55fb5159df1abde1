// Layers, kernels and exchanges of a step. What differs only in the number of its layer is one row, so that the tables
// of a hundred layers are as long as those of two.
#include "Page/PageData.h"

#include "Folder/ProgramFolder.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <tuple>

using namespace llvm;
using namespace hyc;

static constexpr size_t kMostRows = 200;

static json::Value text(StringRef value) { return json::fixUTF8(value); }

std::string hyc::withoutNumbers(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  for (StringRef &part : parts)
    if (!part.empty() && all_of(part, [](char c) { return isDigit(c); }))
      part = "*";
  return join(parts, ".");
}

namespace {
struct LayerRow {
  double forward = 0, backward = 0, other = 0; ///< seconds of a step
  double exchanges = 0, sent = 0;              ///< seconds and bytes of a rank's exchanges in a step
  std::map<TimeBound, double> bounds;
  std::map<std::pair<std::string, std::string>, int64_t> occurrences; ///< of an op in one function
  std::vector<const PlanRule *> parameters;

  double total() const { return forward + backward + other; }
  /// How many layers the row stands for: as often as its commonest op stands in one function of every stage.
  int64_t count() const {
    int64_t most = 1;
    for (const auto &[op, times] : occurrences)
      most = std::max(most, times);
    return most;
  }
};

/// Which layer an op belongs to: the module whose parameters it works on, else the module that its id names.
class LayerNames {
public:
  explicit LayerNames(ArrayRef<PlanRule> parameters) {
    for (const PlanRule &rule : parameters)
      modules.insert(moduleOf(rule));
  }

  static std::string moduleOf(const PlanRule &rule) {
    std::string name = withoutNumbers(rule.match);
    return StringRef(name).rsplit('.').first.str();
  }

  std::string of(StringRef id) const {
    std::string name = withoutNumbers(id);
    for (StringRef path = name; !path.empty(); path = path.contains('.') ? path.rsplit('.').first : StringRef())
      if (modules.contains(path))
        return path.str();
    StringRef path = name;
    for (StringRef derived : {".grad", ".again", ".offloaded", ".back"}) // what passes make of an op
      path = path.split(derived).first;
    while (path.ends_with(".*"))
      path = path.drop_back(2);
    return path.contains('.') ? path.rsplit('.').first.str() : path.str();
  }

private:
  StringSet<> modules;
};
} // namespace

static TimeBound mainBound(const LayerRow &row) {
  auto most = max_element(row.bounds, [](const auto &a, const auto &b) { return a.second < b.second; });
  return most == row.bounds.end() ? TimeBound::Memory : most->first;
}

static void add(LayerRow &row, const OpTime &op) {
  double seconds = op.seconds * static_cast<double>(op.timesPerStep);
  if (op.isExchange) {
    row.exchanges += seconds;
    row.sent += op.bytes * static_cast<double>(op.timesPerStep);
    return;
  }
  StringRef function = op.function;
  (function.starts_with("forward")    ? row.forward
   : function.starts_with("backward") ? row.backward
                                      : row.other) += seconds;
  row.bounds[op.bound] += seconds;
  if (function.starts_with("forward"))
    ++row.occurrences[{op.what, withoutNumbers(op.id)}];
}

/// Rows by what they take, most first; the names of those that are cut off are in none.
template <typename Row, typename Weight>
static std::vector<std::pair<std::string, const Row *>> sorted(const std::map<std::string, Row> &rows, Weight weight) {
  std::vector<std::pair<std::string, const Row *>> result;
  for (const auto &[name, row] : rows)
    result.push_back({name, &row});
  stable_sort(result, [&](const auto &a, const auto &b) { return weight(*a.second) > weight(*b.second); });
  result.resize(std::min(result.size(), kMostRows));
  return result;
}

static void writeParameters(json::OStream &json, const LayerRow &row) {
  json.attributeArray("parameters", [&] {
    for (const PlanRule *rule : row.parameters)
      json.object([&] {
        json.attribute("name", text(StringRef(rule->match).rsplit('.').second));
        json.attribute("sharding", text(rule->value));
        for (const auto &[state, value] : rule->states)
          json.attribute(state, text(value));
      });
  });
}

static void writeLayers(json::OStream &json, const CompiledModel &model) {
  const std::vector<PlanRule> &parameters = model.plan.rules.parameters;
  LayerNames names(parameters);
  std::map<std::string, LayerRow> rows;
  for (const std::vector<OpTime> &stage : model.ops)
    for (const OpTime &op : stage)
      add(rows[names.of(op.id)], op);
  for (const PlanRule &rule : parameters)
    rows[LayerNames::moduleOf(rule)].parameters.push_back(&rule);
  json.attributeArray("layers", [&] {
    for (auto [name, row] : sorted(rows, [](const LayerRow &each) { return each.total(); }))
      json.object([&] {
        json.attribute("name", text(name));
        json.attribute("count", row->count());
        json.attribute("forward", nanoseconds(row->forward));
        json.attribute("backward", nanoseconds(row->backward));
        json.attribute("other", nanoseconds(row->other));
        json.attribute("exchanges", nanoseconds(row->exchanges));
        json.attribute("sent", wholeNumber(row->sent));
        json.attribute("bound", getName(mainBound(*row)));
        writeParameters(json, *row);
      });
  });
}

namespace {
struct KernelRow {
  double seconds = 0, operations = 0, bytes = 0;
  int64_t calls = 0;
  bool isExchange = false;
};
} // namespace

/// By kernel and by what bounds it.
static void writeKernels(json::OStream &json, const CompiledModel &model) {
  std::map<std::string, KernelRow> rows;
  for (const std::vector<OpTime> &stage : model.ops)
    for (const OpTime &op : stage) {
      KernelRow &row = rows[op.what + "\n" + getName(op.bound)];
      double times = static_cast<double>(op.timesPerStep);
      row.seconds += op.seconds * times;
      row.operations += op.operations * times;
      row.bytes += op.bytes * times;
      row.calls += op.timesPerStep;
      row.isExchange = op.isExchange;
    }
  json.attributeArray("kernels", [&] {
    for (auto [name, row] : sorted(rows, [](const KernelRow &each) { return each.seconds; }))
      json.object([&] {
        auto [kernel, bound] = StringRef(name).split('\n');
        json.attribute("name", text(kernel));
        json.attribute("bound", bound);
        json.attribute("seconds", nanoseconds(row->seconds));
        json.attribute("calls", row->calls);
        json.attribute("operations", wholeNumber(row->operations));
        json.attribute("bytes", wholeNumber(row->bytes));
        json.attribute("isExchange", row->isExchange);
      });
  });
}

namespace {
struct ExchangeRow {
  const ExchangeAccount *first = nullptr;
  int64_t count = 0; ///< a step
  double sent = 0;   ///< bytes
};
} // namespace

/// "[{dp}, {}] partial {tp}" of "#dist.sharding<…>".
static StringRef shortReason(StringRef because) {
  if (because.consume_front("#dist.sharding<"))
    because.consume_back(">");
  return because;
}

static void writeExchanges(json::OStream &json, const JobAccount &job) {
  std::map<std::string, ExchangeRow> rows;
  for (const StageAccount &stage : job.stages)
    for (const ExchangeAccount &exchange : stage.exchanges) {
      bool isSend = exchange.kind == "send";
      std::string key = exchange.kind + "\n" + (isSend ? "" : exchange.axes) + "\n" + std::to_string(exchange.bytes) +
                        "\n" + withoutNumbers(exchange.source) + "\n" + exchange.because;
      ExchangeRow &row = rows[key];
      if (!row.first)
        row.first = &exchange;
      row.count += exchange.timesPerStep;
      row.sent += exchange.sentBytesPerStep();
    }
  json.attributeArray("exchanges", [&] {
    for (auto [key, row] : sorted(rows, [](const ExchangeRow &each) { return each.sent; }))
      json.object([&] {
        json.attribute("kind", row->first->kind);
        json.attribute("over", text(row->first->kind == "send" ? "neighbouring stages" : row->first->axes));
        json.attribute("members", row->first->members);
        json.attribute("count", row->count);
        json.attribute("bytes", row->first->bytes);
        json.attribute("sent", wholeNumber(row->sent));
        json.attribute("source", text(withoutNumbers(row->first->source)));
        json.attribute("because", text(shortReason(row->first->because)));
      });
  });
}

void hyc::writeTables(json::OStream &json, const CompiledModel &model) {
  writeLayers(json, model);
  writeKernels(json, model);
  writeExchanges(json, model.account);
}
