// If, Loop and Scan. A branch that is known when compiling is imported alone; otherwise both are computed and their
// results chosen. Loops have a number of steps that is known: many that are all alike are one op that repeats them,
// others are written out, step by step.
//
// The surprise: a branch that is not taken may well compute infinities. So that its backward does no harm, the gradient
// is chosen where values enter it, too: 0 times an infinity is no 0.
#include "Expansion.h"
#include "RolledSteps.h"

#include "llvm/ADT/StringSet.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;

namespace {
/// The graph among a node's attributes; null, reported, where there is none.
const onnxfile::Graph *bodyOf(NodeImport &node, llvm::StringRef name) {
  const onnxfile::Attribute *attribute = node.find(name);
  if (attribute && attribute->has_g())
    return &attribute->g();
  node.error() << "has no graph '" << name << "'";
  return nullptr;
}

LogicalResult finishAll(NodeImport &node, std::vector<Binding> results) {
  std::vector<std::optional<Binding>> bound;
  for (Binding &result : results)
    bound.push_back(std::move(result));
  return node.finish(std::move(bound));
}

/// One truth, where it is known.
std::optional<bool> knownTruth(const Binding &binding) {
  if (!binding.constant || binding.constant->getNumElements() != 1)
    return std::nullopt;
  return binding.constant->atFlat(0).integer != 0;
}

//===----------------------------------------------------------------------===//
// If
//===----------------------------------------------------------------------===//

/// What a value is inside of a branch that is taken where the condition holds (or does not): the same, but that a
/// gradient from there is taken as 0 where it is not.
Binding asInBranch(Expansion &e, const Binding &condition, const Binding &value, bool ofTrue) {
  if (value.sequence) {
    Binding list = value;
    for (Binding &each : *list.sequence)
      each = asInBranch(e, condition, each, ofTrue);
    return list;
  }
  const bool hasGradient = value.isTensor() && !value.constant && isa<FloatType>(value.type.getElementType());
  if (!hasGradient || !e.ok())
    return value;
  Binding stopped = e(kStopGradient, {value});
  return ofTrue ? e.where(condition, value, stopped) : e.where(condition, stopped, value);
}

/// Imports a branch with what it takes from around it as it is inside.
LogicalResult importBranch(NodeImport &node, const onnxfile::Graph &body, const Binding &condition, bool ofTrue,
                           std::vector<Binding> &results) {
  Importer &importer = node.importer();
  Expansion e(node);
  std::vector<std::pair<std::string, Binding>> outside;
  llvm::StringSet<> seen;
  onnxfile::Node holder;
  *holder.add_attribute()->mutable_g() = body;
  forEachUse(holder, [&](const std::string &name) {
    if (Binding *known = importer.lookup(name); known && seen.insert(name).second)
      outside.push_back({name, *known});
  });
  for (auto &[name, value] : outside)
    importer.bind(name, asInBranch(e, condition, value, ofTrue));
  LogicalResult result = e.ok() ? importer.importBody(body, {}, results) : failure();
  for (auto &[name, value] : outside)
    importer.bind(name, value);
  return result;
}

/// Of two values that branches give, the one that counts.
std::optional<Binding> choose(Expansion &e, const Binding &condition, const Binding &ofTrue, const Binding &ofFalse) {
  if (ofTrue.isTensor() && ofTrue.type == ofFalse.type)
    return e.where(condition, ofTrue, ofFalse);
  if (!ofTrue.sequence || !ofFalse.sequence || ofTrue.sequence->size() != ofFalse.sequence->size())
    return std::nullopt;
  Binding list = ofTrue;
  for (size_t i = 0; i < list.sequence->size(); ++i) {
    std::optional<Binding> chosen = choose(e, condition, (*ofTrue.sequence)[i], (*ofFalse.sequence)[i]);
    if (!chosen)
      return std::nullopt;
    (*list.sequence)[i] = *chosen;
  }
  return list;
}

LogicalResult importIf(NodeImport &node) {
  const onnxfile::Graph *ofTrue = bodyOf(node, "then_branch"),
                        *ofFalse = ofTrue ? bodyOf(node, "else_branch") : nullptr;
  if (!ofFalse)
    return failure();
  std::vector<Binding> results, others;
  if (std::optional<bool> known = knownTruth(node.input(0))) {
    if (failed(node.importer().importBody(*known ? *ofTrue : *ofFalse, {}, results)))
      return failure();
    return finishAll(node, std::move(results));
  }
  Expansion e(node);
  Binding condition = e.reshape(node.input(0), {});
  if (failed(importBranch(node, *ofTrue, condition, true, results)) ||
      failed(importBranch(node, *ofFalse, condition, false, others)))
    return failure();
  if (results.size() != others.size())
    return node.error() << "has branches of " << results.size() << " and " << others.size() << " results";
  for (size_t i = 0; i < results.size(); ++i) {
    std::optional<Binding> chosen = choose(e, condition, results[i], others[i]);
    if (!chosen)
      return node.error()
             << "has a result " << i
             << " of another type in one branch than in the other, though which is taken is only known when "
                "it runs";
    results[i] = *chosen;
  }
  return e.ok() ? finishAll(node, std::move(results)) : failure();
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// What the steps of a loop give, each a new dimension's element, or beside one another along a dimension.
class Stacks {
public:
  Stacks(NodeImport &node, size_t count) : e(node), node(node), parts(count) {}

  void add(size_t index, const Binding &part) { parts[index].push_back(part); }
  /// In reverse order where `isBackward`.
  std::optional<Binding> stacked(size_t index, int64_t axis = 0, bool isBackward = false) {
    std::vector<Binding> &own = parts[index];
    if (own.empty() || !own.front().isTensor()) {
      node.error() << "collects " << own.size() << " results of its steps, expected tensors of at least one step";
      return std::nullopt;
    }
    std::optional<int64_t> dim = node.normalizeAxis(axis, own.front().type.getRank() + 1);
    if (!dim)
      return std::nullopt;
    std::vector<Binding> apart;
    for (const Binding &part : own)
      apart.push_back(e("Unsqueeze", {part, e.integers({*dim})}));
    if (isBackward)
      std::reverse(apart.begin(), apart.end());
    Binding result = e("Concat", apart, {{"axis", *dim}});
    return e.ok() ? std::optional(result) : std::nullopt;
  }

private:
  Expansion e;
  NodeImport &node;
  std::vector<std::vector<Binding>> parts;
};

/// The number of steps where it is given; nothing, reported, where it is computed when running.
std::optional<int64_t> mostSteps(NodeImport &node) {
  if (!node.has(0) || node.input(0).isAbsent())
    return std::numeric_limits<int64_t>::max();
  const HostTensor *count = node.constant(0);
  if (!count)
    return std::nullopt;
  return count->getNumElements() == 1 && !count->isReal() ? count->atFlat(0).integer : 0;
}

/// A loop of a given number of steps, none of which asks for its number or may end it. Nothing where it is another.
std::optional<std::vector<Binding>> rollLoop(NodeImport &node, const onnxfile::Graph &body, int64_t steps,
                                             const std::vector<Binding> &carried) {
  Importer &importer = node.importer();
  Repeated repeated{steps, false, carried, {}};
  if (!areWorthRolling(repeated))
    return std::nullopt;
  // The step's number is no constant here: a body that asks for it is written out, where it is one.
  Builder &builder = importer.getBuilder();
  Binding goesOn = importer.ofConstant(HostTensor::splat(builder.getI1Type(), {}, HostElement::ofInteger(1)));
  repeated.sequences.push_back(
      importer.ofValue(importer.emit<IotaOp>(RankedTensorType::get({steps}, builder.getI64Type()), uint64_t(0))));
  std::optional<Step> made = importer.rollSteps(
      repeated, [&](llvm::ArrayRef<Binding> own, llvm::ArrayRef<Binding> elements) -> std::optional<Step> {
        std::vector<Binding> inputs{elements[0], goesOn}, outputs;
        llvm::append_range(inputs, own);
        if (failed(importer.importBody(body, inputs, outputs)) || outputs.size() < 1 + own.size() ||
            knownTruth(outputs.front()) != true || !elements[0].value.use_empty())
          return std::nullopt;
        auto begin = outputs.begin() + 1, middle = begin + static_cast<int64_t>(own.size());
        return Step{{begin, middle}, {middle, outputs.end()}};
      });
  if (!made)
    return std::nullopt;
  std::vector<Binding> results = made->carried;
  for (int i = static_cast<int>(carried.size()); i < node.outputCount(); ++i)
    results.push_back(made->given[i - carried.size()]);
  return results;
}

/// inputs: how many steps, whether to begin, what is carried. The body: the step's number and whether it goes on, in;
/// whether to go on, what is carried, what is collected, out.
LogicalResult importLoop(NodeImport &node) {
  Importer &importer = node.importer();
  const onnxfile::Graph *body = bodyOf(node, "body");
  std::optional<int64_t> most = body ? mostSteps(node) : std::nullopt;
  if (!most)
    return failure();
  Builder &builder = importer.getBuilder();
  Binding goesOn = importer.ofConstant(HostTensor::splat(builder.getI1Type(), {}, HostElement::ofInteger(1)));
  if (node.has(1) && node.input(1).isTensor())
    goesOn = node.input(1);
  std::vector<Binding> carried, outputs;
  for (int i = 2; i < node.inputCount(); ++i)
    carried.push_back(node.has(i) ? node.input(i) : Binding());
  if (body->output_size() < static_cast<int>(carried.size()) + 1)
    return node.error() << "carries " << carried.size() << " values through a graph of " << body->output_size()
                        << " outputs, expected one more at least";
  if (node.outputCount() > body->output_size() - 1)
    return node.error() << "has " << node.outputCount() << " results of a graph with " << body->output_size()
                        << " outputs, expected one less than these at most";
  if (knownTruth(goesOn) == true && *most <= kMostRolled)
    if (std::optional<std::vector<Binding>> rolled = rollLoop(node, *body, *most, carried))
      return finishAll(node, std::move(*rolled));
  Stacks collected(node, body->output_size() - 1 - carried.size());
  for (int64_t step = 0; step < *most; ++step) {
    std::optional<bool> isMore = knownTruth(goesOn);
    if (!isMore)
      return node.error() << "goes on as long as values say that are known only when it runs; hyc writes loops out, so "
                             "that their steps have to be counted by constants";
    if (!*isMore)
      break;
    std::vector<Binding> inputs{
        importer.ofConstant(HostTensor::splat(builder.getI64Type(), {}, HostElement::ofInteger(step))), goesOn};
    llvm::append_range(inputs, carried);
    if (failed(importer.importBody(*body, inputs, outputs)))
      return failure();
    goesOn = outputs.front();
    std::copy(outputs.begin() + 1, outputs.begin() + 1 + static_cast<int64_t>(carried.size()), carried.begin());
    for (size_t i = 1 + carried.size(); i < outputs.size(); ++i)
      collected.add(i - 1 - carried.size(), outputs[i]);
  }
  std::vector<Binding> results = carried;
  for (int i = static_cast<int>(carried.size()); i < node.outputCount(); ++i) {
    std::optional<Binding> stack = collected.stacked(i - carried.size());
    if (!stack)
      return failure();
    results.push_back(*stack);
  }
  return finishAll(node, std::move(results));
}

/// A list of numbers, one for each of `count`; zeros where it is not given.
std::optional<llvm::SmallVector<int64_t>> perValue(NodeImport &node, llvm::StringRef name, size_t count) {
  std::optional<llvm::SmallVector<int64_t>> given = node.getInts(name);
  if (!given)
    return llvm::SmallVector<int64_t>(count, 0);
  if (given->size() == count)
    return given;
  node.error() << "has " << given->size() << " numbers in '" << name << "', expected " << count;
  return std::nullopt;
}

/// How a Scan goes through what it is given and collects.
struct Scanning {
  size_t states = 0;
  llvm::SmallVector<int64_t> axes, directions, outAxes, outDirections;
};

/// The steps rolled, where what they go through and collect has one direction. Nothing where it has not, or where they
/// are better written out.
std::optional<std::vector<Binding>> rollScan(NodeImport &node, const onnxfile::Graph &body, const Scanning &how,
                                             int64_t steps, const std::vector<Binding> &states,
                                             const std::vector<Binding> &sequences) {
  const bool isReverse = how.directions[0] != 0;
  auto isOther = [&](int64_t other) { return (other != 0) != isReverse; };
  Repeated repeated{steps, isReverse, states, sequences};
  if (steps > kMostRolled || llvm::any_of(how.directions, isOther) || llvm::any_of(how.outDirections, isOther) ||
      !areWorthRolling(repeated))
    return std::nullopt;
  Expansion e(node);
  auto moved = [&](const Binding &x, int64_t from, int64_t to) {
    llvm::SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, x.type.getRank()));
    order.erase(order.begin() + from);
    order.insert(order.begin() + to, from);
    return from == to ? x : e.transpose(x, order);
  };
  for (auto [index, sequence] : llvm::enumerate(repeated.sequences))
    sequence = moved(sequence, *node.normalizeAxis(how.axes[index], sequence.type.getRank()), 0);
  if (!e.ok())
    return std::nullopt;
  std::optional<Step> made = node.importer().rollSteps(
      repeated, [&](llvm::ArrayRef<Binding> own, llvm::ArrayRef<Binding> elements) -> std::optional<Step> {
        std::vector<Binding> inputs(own.begin(), own.end()), outputs;
        llvm::append_range(inputs, elements);
        if (failed(node.importer().importBody(body, inputs, outputs)) ||
            outputs.size() < own.size() + how.outAxes.size())
          return std::nullopt;
        auto middle = outputs.begin() + static_cast<int64_t>(own.size());
        return Step{{outputs.begin(), middle}, {middle, middle + static_cast<int64_t>(how.outAxes.size())}};
      });
  if (!made)
    return std::nullopt;
  std::vector<Binding> results = std::move(made->carried);
  for (auto [index, stack] : llvm::enumerate(made->given)) {
    std::optional<int64_t> axis = node.normalizeAxis(how.outAxes[index], stack.type.getRank());
    if (!axis)
      return std::nullopt;
    results.push_back(moved(stack, 0, *axis));
  }
  return e.ok() ? std::optional(results) : std::nullopt;
}

/// The final states, then what is collected.
LogicalResult scan(NodeImport &node, const onnxfile::Graph &body, const Scanning &how, std::vector<Binding> states,
                   std::vector<Binding> sequences, std::vector<Binding> &results) {
  Importer &importer = node.importer();
  int64_t steps = -1;
  for (auto [index, sequence] : llvm::enumerate(sequences)) {
    std::optional<int64_t> axis = node.normalizeAxis(how.axes[index], sequence.type.getRank());
    if (!axis)
      return failure();
    int64_t own = sequence.type.getDimSize(*axis);
    if (steps >= 0 && own != steps)
      return node.error() << "goes through " << steps << " and " << own << " elements at once, expected equally many";
    steps = own;
  }
  if (body.output_size() < static_cast<int>(how.states))
    return node.error() << "carries " << how.states << " values through a graph of " << body.output_size()
                        << " outputs";
  if (std::optional<std::vector<Binding>> rolled = rollScan(node, body, how, steps, states, sequences)) {
    results = std::move(*rolled);
    return success();
  }
  Stacks collected(node, body.output_size() - how.states);
  std::vector<Binding> outputs;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Binding> inputs = states;
    for (auto [index, sequence] : llvm::enumerate(sequences)) {
      const int64_t axis = *node.normalizeAxis(how.axes[index], sequence.type.getRank());
      std::optional<Binding> part =
          importer.slice(sequence, axis, how.directions[index] ? steps - 1 - step : step, 1, 1);
      llvm::SmallVector<int64_t> shape(sequence.type.getShape());
      shape.erase(shape.begin() + axis);
      part = part ? importer.reshape(*part, shape) : std::nullopt;
      if (!part)
        return node.finish(std::nullopt);
      inputs.push_back(*part);
    }
    if (failed(importer.importBody(body, inputs, outputs)))
      return failure();
    std::copy(outputs.begin(), outputs.begin() + static_cast<int64_t>(how.states), states.begin());
    for (size_t i = how.states; i < outputs.size(); ++i)
      collected.add(i - how.states, outputs[i]);
  }
  results = std::move(states);
  for (size_t i = 0; i < how.outAxes.size(); ++i) {
    std::optional<Binding> stack = collected.stacked(i, how.outAxes[i], how.outDirections[i] != 0);
    if (!stack)
      return failure();
    results.push_back(*stack);
  }
  return success();
}

/// Before operator set 9 each sample is gone through by itself, and they are dimension 0 of everything.
LogicalResult scanSamples(NodeImport &node, const onnxfile::Graph &body, const Scanning &how,
                          llvm::ArrayRef<Binding> states, llvm::ArrayRef<Binding> sequences) {
  Importer &importer = node.importer();
  const int64_t samples = (states.empty() ? sequences : states).front().type.getDimSize(0);
  Stacks all(node, node.outputCount());
  for (int64_t sample = 0; sample < samples; ++sample) {
    auto ownOf = [&](llvm::ArrayRef<Binding> values, std::vector<Binding> &own) {
      for (Binding value : values) {
        if (value.type.getRank() == 0 || value.type.getDimSize(0) != samples)
          return node.error() << "is given " << value.type << " beside " << samples << " samples", false;
        std::optional<Binding> part = importer.slice(value, 0, sample, 1, 1);
        part = part ? importer.reshape(*part, value.type.getShape().drop_front()) : std::nullopt;
        if (!part)
          return false;
        own.push_back(*part);
      }
      return true;
    };
    std::vector<Binding> ownStates, ownSequences, results;
    if (!ownOf(states, ownStates) || !ownOf(sequences, ownSequences) ||
        failed(scan(node, body, how, ownStates, ownSequences, results)))
      return failure();
    for (int i = 0; i < node.outputCount(); ++i)
      all.add(i, results[i]);
  }
  std::vector<Binding> results;
  for (int i = 0; i < node.outputCount(); ++i) {
    std::optional<Binding> stack = all.stacked(i);
    if (!stack)
      return failure();
    results.push_back(*stack);
  }
  return finishAll(node, std::move(results));
}

LogicalResult importScan(NodeImport &node) {
  const onnxfile::Graph *body = bodyOf(node, "body");
  const int first = node.opset() < 9 ? 1 : 0; // sequence lengths, which are all the whole
  const int64_t count = node.getInt("num_scan_inputs", 0), given = node.inputCount() - first;
  if (!body || count < 1 || count > given || (first && node.has(0)))
    return body ? node.error() << "goes through " << count << " of its " << given
                               << " values, expected at least one, and no lengths of their own"
                : failure();
  Scanning how;
  how.states = given - count;
  const int64_t collected = node.outputCount() - static_cast<int64_t>(how.states);
  if (collected < 0 || static_cast<int64_t>(body->output_size()) < node.outputCount())
    return node.error() << "has " << node.outputCount() << " results of a graph with " << body->output_size()
                        << " outputs, of which " << how.states << " are carried";
  for (auto [list, name, size] : {std::tuple(&how.axes, "scan_input_axes", count),
                                  {&how.directions, first ? "directions" : "scan_input_directions", count},
                                  {&how.outAxes, "scan_output_axes", collected},
                                  {&how.outDirections, "scan_output_directions", collected}}) {
    auto numbers = perValue(node, name, size);
    if (!numbers)
      return failure();
    *list = *numbers;
  }
  std::vector<Binding> states, sequences, results;
  for (int i = first; i < node.inputCount(); ++i) {
    if (!node.has(i) || !node.input(i).isTensor())
      return node.error() << "has an input " << i << " that is no tensor";
    (i - first < static_cast<int64_t>(how.states) ? states : sequences).push_back(node.input(i));
  }
  if (first)
    return scanSamples(node, *body, how, states, sequences);
  if (failed(scan(node, *body, how, states, sequences, results)))
    return failure();
  return finishAll(node, std::move(results));
}

/// The body over each tensor of a list, and of the others that are lists.
LogicalResult importSequenceMap(NodeImport &node) {
  const onnxfile::Graph *body = bodyOf(node, "body");
  if (!body)
    return failure();
  const size_t count = node.input(0).sequence->size();
  std::vector<Binding> lists(node.outputCount());
  for (Binding &list : lists)
    list.sequence.emplace();
  for (size_t step = 0; step < count; ++step) {
    std::vector<Binding> inputs, outputs;
    for (int i = 0; i < node.inputCount(); ++i) {
      const Binding &own = node.input(i);
      if (own.sequence && own.sequence->size() != count)
        return node.error() << "goes through lists of " << count << " and " << own.sequence->size()
                            << " tensors at once";
      inputs.push_back(own.sequence ? (*own.sequence)[step] : own);
    }
    if (failed(node.importer().importBody(*body, inputs, outputs)))
      return failure();
    if (outputs.size() < lists.size())
      return node.error() << "has " << lists.size() << " results of a graph with " << outputs.size() << " outputs";
    for (size_t i = 0; i < lists.size(); ++i)
      lists[i].sequence->push_back(outputs[i]);
  }
  return finishAll(node, std::move(lists));
}
} // namespace

void hyc::onnx::addControlFlowOperators(OperatorTable &table) {
  const OperandRules any({anything("values").optional()}, /*repeatsLast=*/true);
  table["If"] = {importIf, {one("cond").boolean()}};
  table["Loop"] = {importLoop, OperandRules({one("M").integer().optional(), one("cond").boolean().optional(),
                                             anything("v_initial").optional()},
                                            /*repeatsLast=*/true)};
  table["Scan"] = {importScan, any};
  table["SequenceMap"] = {importSequenceMap,
                          OperandRules({sequence("input_sequence"), anything("additional_inputs").optional()},
                                       /*repeatsLast=*/true)};
}
