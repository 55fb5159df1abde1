// Makes one function of op sequences that differ only in addresses.
//
// A function is a sequence of calls; two calls are alike if only ids, offsets and rows differ. A run of repeats with
// period p is a stretch where call i is like call i + p. The greatest saving wins, a shorter period before one that
// saves at most twice as much, again and again until none is left.
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/Likeness.h"
#include "hyc/Transforms/Rank/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <map>

namespace hyc {
#define GEN_PASS_DEF_SHARELAYERS
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// "transformer.h.0" of "transformer.h.0.ln_1.weight": up to the first numeric segment, or nothing.
StringRef layerPrefix(StringRef id) {
  size_t end = 0;
  while (end < id.size()) {
    size_t dot = std::min(id.find('.', end), id.size());
    StringRef segment = id.slice(end, dot);
    if (!segment.empty() && llvm::all_of(segment, llvm::isDigit))
      return id.take_front(dot);
    end = dot + 1;
  }
  return {};
}

/// The rest of an id after the layer's prefix and a dot; the id itself where it has another prefix.
StringRef withoutPrefix(StringRef id, StringRef prefix) {
  if (!prefix.empty() && id.size() > prefix.size() + 1 && id.starts_with(prefix) && id[prefix.size()] == '.')
    return id.drop_front(prefix.size() + 1);
  return id;
}

/// Of two calls that differ in addresses and rows alone.
Likeness likenessOf(Operation *call, const DenseMap<Operation *, int64_t> &positions) {
  Likeness all(call);
  all.addProperties(call);
  for (Value operand : call->getOperands()) {
    all.add(operand.getType());
    Operation *producer = operand.getDefiningOp();
    if (auto place = dyn_cast_or_null<rank::AtOp>(producer)) {
      all.add(place.getArenaAttr());
      all.addNumber(place.getPerSlot());
    } else if (producer && !isa<rank::RowOp>(producer)) {
      all.addNumber(positions.lookup(call) - positions.lookup(producer));
    }
  }
  return all;
}

struct Repeat {
  size_t begin = 0, period = 0, count = 0;
  size_t saved() const { return (count - 1) * period; }
};

class LayerSharer {
public:
  LayerSharer(rank::FuncOp func, size_t minimumOps)
      : func(func), program(func->getParentOfType<rank::ProgramOp>()), minimumOps(minimumOps) {}

  void run() {
    readCalls();
    for (std::optional<Repeat> repeat = findBest(); repeat; repeat = findBest()) {
      outline(*repeat);
      readCalls();
    }
  }

private:
  void readCalls();
  std::optional<Repeat> findBest() const;
  bool isClosed(const Repeat &repeat) const;
  size_t prefixVotes(size_t begin, size_t period, StringRef &prefix) const;
  Repeat alignToLayer(Repeat repeat, size_t slack) const;
  class Outline;
  void outline(const Repeat &repeat);
  std::string uniqueName(StringRef prefix);

  rank::FuncOp func;
  rank::ProgramOp program;
  size_t minimumOps;
  SmallVector<Operation *> calls;
  SmallVector<int64_t> keys;
};

void LayerSharer::readCalls() {
  calls.clear();
  keys.clear();
  std::map<Likeness, int64_t> numbers;
  DenseMap<Operation *, int64_t> positions;
  for (Operation &op : func.getBlock())
    if (!isa<rank::AtOp, rank::RowOp>(op)) {
      positions[&op] = calls.size();
      calls.push_back(&op);
    }
  for (Operation *call : calls) {
    int64_t fresh = static_cast<int64_t>(numbers.size());
    // What is shared already is like nothing else, and what is repeated is kept apart.
    keys.push_back(isa<rank::InvokeOp, rank::RepeatOp>(call)
                       ? -1 - static_cast<int64_t>(keys.size())
                       : numbers.try_emplace(likenessOf(call, positions), fresh).first->second);
  }
}

/// Whether every collective and move begun in the first block ends in it.
bool LayerSharer::isClosed(const Repeat &repeat) const {
  SmallPtrSet<Operation *, 16> inside(calls.begin() + repeat.begin, calls.begin() + repeat.begin + repeat.period);
  for (Operation *call : inside) {
    for (Value result : call->getResults())
      if (isa<rank::TicketType>(result.getType()) &&
          llvm::any_of(result.getUsers(), [&](Operation *wait) { return !inside.contains(wait); }))
        return false;
    if (auto wait = dyn_cast<rank::WaitOp>(call))
      if (!inside.contains(wait.getTicket().getDefiningOp()))
        return false;
  }
  return true;
}

/// How many calls of a block belong to its most frequent layer.
size_t LayerSharer::prefixVotes(size_t begin, size_t period, StringRef &prefix) const {
  llvm::MapVector<StringRef, size_t> votes;
  for (size_t i = begin; i < begin + period; ++i)
    if (StringRef layer = layerPrefix(getId(calls[i])); !layer.empty())
      ++votes[layer];
  size_t most = 0;
  for (auto [layer, count] : votes)
    if (count > most) {
      most = count;
      prefix = layer;
    }
  return most;
}

/// Moves the begin by up to `slack` calls to where blocks coincide with layers.
Repeat LayerSharer::alignToLayer(Repeat repeat, size_t slack) const {
  Repeat best = repeat;
  size_t bestVotes = 0;
  bool found = false;
  for (size_t shift = 0; shift <= slack; ++shift) {
    Repeat shifted{repeat.begin + shift, repeat.period, repeat.count};
    StringRef prefix;
    size_t votes = prefixVotes(shifted.begin, shifted.period, prefix);
    if (isClosed(shifted) && (!found || votes > bestVotes)) {
      best = shifted;
      bestVotes = votes;
      found = true;
    }
  }
  return found ? best : Repeat();
}

std::optional<Repeat> LayerSharer::findBest() const {
  Repeat best;
  for (size_t period = minimumOps; 2 * period <= keys.size(); ++period)
    for (size_t i = 0; i + period < keys.size();) {
      size_t length = 0;
      while (i + length + period < keys.size() && keys[i + length] == keys[i + length + period])
        ++length;
      // Periods grow: a longer one has to save more than twice as much, since what repeats inside of its function is
      // written out there.
      if (size_t count = length / period + 1;
          count > 1 && (count - 1) * period > best.saved() * (period > best.period && best.count ? 2 : 1))
        if (Repeat aligned = alignToLayer({i, period, count}, length % period); aligned.count)
          best = aligned;
      i += length + 1;
    }
  if (best.saved() == 0)
    return std::nullopt;
  return best;
}

std::string LayerSharer::uniqueName(StringRef prefix) {
  // "forward.h" of "transformer.h.0".
  StringRef stem = prefix.rsplit('.').first;
  StringRef last = stem.contains('.') ? stem.rsplit('.').second : stem;
  std::string base = (func.getSymName() + "." + (prefix.contains('.') && !last.empty() ? last : StringRef("repeated")))
                         .str(),
              name = base;
  for (unsigned i = 1; program.lookupSymbol(name); ++i)
    name = base + "." + std::to_string(i);
  return name;
}

/// What an address or row is, without its id.
std::string placeOf(Value value) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (auto place = value.getDefiningOp<rank::AtOp>())
    stream << place.getArena() << ' ' << place.getOffset() << ' ' << place.getPerSlot() << ' '
           << place.getResult().getType();
  else
    stream << cast<rank::RowOp>(value.getDefiningOp()).getEntry();
  return text;
}

/// A name as C++ and its like can have it: "reshape.3" and "reshape_3" are one.
std::string spelled(std::string name) {
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  return name;
}

/// The body that all repetitions share, while it is made from the first one.
class LayerSharer::Outline {
public:
  Outline(LayerSharer &sharer, const Repeat &repeat, StringRef prefix)
      : sharer(sharer), repeat(repeat), prefix(prefix), builder(sharer.func),
        shared(rank::FuncOp::create(builder, at(0, 0)->getLoc(), sharer.uniqueName(prefix))),
        body(shared.getBody().emplaceBlock()), inner(OpBuilder::atBlockBegin(&body)), arguments(repeat.count) {}

  void clone(size_t call);
  void finish();

  rank::FuncOp getFunction() { return shared; }
  ValueRange argumentsOf(size_t repetition) { return arguments[repetition]; }

private:
  Operation *at(size_t repetition, size_t call) const {
    return sharer.calls[repeat.begin + repetition * repeat.period + call];
  }
  /// Where an operand lies in each repetition.
  std::string placesOf(size_t call, unsigned operand) const;
  bool isEverywhereTheSame(size_t call, unsigned operand) const;
  void map(size_t call, unsigned operand);
  Value addArgument(size_t call, unsigned operand);
  std::string nameOf(size_t call, Value argument);

  LayerSharer &sharer;
  const Repeat &repeat;
  StringRef prefix;
  OpBuilder builder;
  rank::FuncOp shared;
  Block &body;
  OpBuilder inner;
  IRMapping mapping;
  SmallVector<SmallVector<Value>> arguments; // by repetition
  SmallVector<Attribute> names, arenas;
  llvm::StringSet<> usedNames;
  llvm::StringMap<Value> byPlaces; // places in all repetitions -> value inside
};

std::string LayerSharer::Outline::placesOf(size_t call, unsigned operand) const {
  std::string places;
  for (size_t r = 0; r < repeat.count; ++r)
    places += placeOf(at(r, call)->getOperand(operand)) + "; ";
  return places;
}

bool LayerSharer::Outline::isEverywhereTheSame(size_t call, unsigned operand) const {
  std::string first = placeOf(at(0, call)->getOperand(operand));
  for (size_t r = 1; r < repeat.count; ++r)
    if (placeOf(at(r, call)->getOperand(operand)) != first)
      return false;
  return true;
}

std::string LayerSharer::Outline::nameOf(size_t call, Value argument) {
  StringRef id = withoutPrefix(getId(argument.getDefiningOp()), prefix);
  bool isRow = isa<rank::RowType>(argument.getType());
  std::string base = isRow && isa<rank::CheckOp>(at(0, call)) ? "site"
                     : isRow                                  ? "collective"
                     : id.empty()                             ? "buffer"
                                                              : id.str(),
              name = base;
  for (unsigned i = 1; !usedNames.insert(spelled(name)).second; ++i)
    name = base + "_" + std::to_string(i);
  return name;
}

Value LayerSharer::Outline::addArgument(size_t call, unsigned operand) {
  Value first = at(0, call)->getOperand(operand);
  for (size_t r = 0; r < repeat.count; ++r)
    arguments[r].push_back(at(r, call)->getOperand(operand));
  names.push_back(builder.getStringAttr(nameOf(call, first)));
  auto place = first.getDefiningOp<rank::AtOp>();
  arenas.push_back(
      builder.getStringAttr(!place ? "" : place.getArena() + Twine(place.getPerSlot() ? " per_slot" : "")));
  return body.addArgument(first.getType(), first.getLoc());
}

void LayerSharer::Outline::map(size_t call, unsigned operand) {
  Value first = at(0, call)->getOperand(operand);
  if (isa<rank::TicketType>(first.getType()))
    return;
  Value &inside = byPlaces[placesOf(call, operand)];
  if (!inside && isEverywhereTheSame(call, operand)) {
    inside = inner.clone(*first.getDefiningOp())->getResult(0);
    eraseId(inside.getDefiningOp());
  } else if (!inside) {
    inside = addArgument(call, operand);
  }
  // Equal values of the first repetition may differ in others: the mapping holds for this operand only.
  mapping.map(first, inside);
}

void LayerSharer::Outline::clone(size_t call) {
  Operation *original = at(0, call);
  for (unsigned operand = 0; operand < original->getNumOperands(); ++operand)
    map(call, operand);
  Operation *clone = inner.clone(*original, mapping);
  // Two operands of one call may share a place here and not elsewhere.
  for (unsigned operand = 0; operand < original->getNumOperands(); ++operand)
    if (!isa<rank::TicketType>(original->getOperand(operand).getType()))
      clone->setOperand(operand, byPlaces[placesOf(call, operand)]);
  if (StringRef id = getId(original); !id.empty())
    setId(clone, withoutPrefix(id, prefix));
}

void LayerSharer::Outline::finish() {
  shared.setArgumentNamesAttr(builder.getArrayAttr(names));
  shared.setArgumentArenasAttr(builder.getArrayAttr(arenas));
  if (!prefix.empty())
    shared.setFirstLayer(prefix);
}

void LayerSharer::outline(const Repeat &repeat) {
  StringRef firstPrefix;
  prefixVotes(repeat.begin, repeat.period, firstPrefix);
  Outline outline(*this, repeat, firstPrefix);
  for (size_t call = 0; call < repeat.period; ++call)
    outline.clone(call);
  outline.finish();

  for (size_t r = 0; r < repeat.count; ++r) {
    size_t begin = repeat.begin + r * repeat.period;
    // After the last call, where all addresses that the repetition uses are defined.
    OpBuilder at(calls[begin + repeat.period - 1]->getBlock(),
                 std::next(calls[begin + repeat.period - 1]->getIterator()));
    auto invoke =
        rank::InvokeOp::create(at, calls[begin]->getLoc(), outline.getFunction().getSymName(), outline.argumentsOf(r));
    StringRef prefix;
    prefixVotes(begin, repeat.period, prefix);
    if (!prefix.empty())
      setId(invoke, prefix);
  }
  for (size_t i = repeat.begin + repeat.count * repeat.period; i-- > repeat.begin;)
    calls[i]->erase();
  for (Operation &op : llvm::make_early_inc_range(func.getBlock()))
    if (isa<rank::AtOp, rank::RowOp>(op) && op.use_empty())
      op.erase();
}

struct ShareLayers : hyc::impl::ShareLayersBase<ShareLayers> {
  using ShareLayersBase::ShareLayersBase;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<rank::ProgramOp>())
      for (rank::FuncOp func : llvm::to_vector(program.getOps<rank::FuncOp>()))
        if (!func.isShared())
          LayerSharer(func, std::max<int64_t>(2, minimumOps)).run();
  }
};

} // namespace
