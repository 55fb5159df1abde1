// Joins all-reduces of adjacent ranges over one group into one. Runs after placement, which put them side by side.
#include "dialects/Hyc/OpId.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Transforms/Rank/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace hyc {
#define GEN_PASS_DEF_COALESCEREDUCTIONS
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// One all_reduce that could be joined with others: begun and waited for in the reduce function, on a state's place.
struct Reduction {
  rank::StartOp start;
  rank::WaitOp wait;
  rank::AtOp place;
  rank::CollectiveOp row;

  int64_t begin() { return place.getOffset(); }
  int64_t end() { return begin() + place.getResult().getType().getBytes(); }
};

/// What a program's reductions name.
struct ProgramNames {
  explicit ProgramNames(rank::ProgramOp program) : symbols(program) {
    for (auto state : program.getOps<rank::StateOp>())
      if (std::optional<uint64_t> offset = state.getOffset())
        states.insert({state.getArenaAttr(), static_cast<int64_t>(*offset)});
  }

  /// A fetched copy shares its place with what comes before and after it; only what is there all the time has
  /// neighbours.
  bool isState(rank::AtOp place) const {
    return states.contains({place.getArenaAttr(), static_cast<int64_t>(place.getOffset())});
  }

  SymbolTable symbols;
  llvm::DenseSet<std::pair<Attribute, int64_t>> states; ///< by arena and offset
};

std::optional<Reduction> readReduction(rank::StartOp start, const ProgramNames &names) {
  auto place = start.getSource().getDefiningOp<rank::AtOp>();
  auto rowOp = start.getRow().getDefiningOp<rank::RowOp>();
  auto row = rowOp ? names.symbols.lookup<rank::CollectiveOp>(rowOp.getEntry()) : rank::CollectiveOp();
  auto wait = start.getTicket().hasOneUse() ? dyn_cast<rank::WaitOp>(*start.getTicket().user_begin()) : rank::WaitOp();
  // Across stages the programs would have to agree on what is adjacent.
  if (!place || !row || !wait || !names.isState(place) || start.getExchange() != dist::ExchangeKind::all_reduce ||
      !row.getGroup().getStages().empty() || !place.getResult().getType().isDense() ||
      place.getResult().getType().isShard())
    return std::nullopt;
  return Reduction{start, wait, place, row};
}

/// `run` is adjacent and in the order of addresses; the first of the program order stays and covers all.
void join(MutableArrayRef<Reduction> run) {
  if (run.size() < 2)
    return;
  Reduction &kept = *std::min_element(run.begin(), run.end(),
                                      [](Reduction &a, Reduction &b) { return a.start->isBeforeInBlock(b.start); });
  OpBuilder builder(kept.start);
  rank::BufferType type = kept.place.getResult().getType();
  int64_t begin = run.front().begin(), count = (run.back().end() - begin) / type.getElementBytes();
  auto place = rank::AtOp::create(builder, kept.place.getLoc(),
                                  rank::BufferType::get(type.getContext(), {count}, type.getElementType(), {}),
                                  kept.place.getArena(), begin, /*per_slot=*/false);
  kept.start.getSourcesMutable().assign(ValueRange(place.getResult()));
  kept.start.setCount(count);
  std::string cause = (run.front().row.getCause() + " to " + run.back().row.getCause()).str();
  kept.row.setCause(cause);
  setId(kept.start, cause);
  for (Reduction &reduction : run) {
    if (reduction.start == kept.start)
      continue;
    auto row = reduction.start.getRow().getDefiningOp();
    reduction.wait.erase();
    reduction.start.erase();
    row->erase();
    reduction.row.erase();
  }
}

struct CoalesceReductions : hyc::impl::CoalesceReductionsBase<CoalesceReductions> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<rank::ProgramOp>()) {
      if (auto reduce = program.lookupSymbol<rank::FuncOp>(rank::functionName(dist::InstructionKind::reduce)))
        runOnReduce(program, reduce, rank::kAlignment);
      // Placement has put side by side what training reduces; between what another entry does may lie anything.
      for (auto entry : program.getOps<rank::EntryOp>())
        if (auto reduce = program.lookupSymbol<rank::FuncOp>(
                rank::functionName(dist::InstructionKind::reduce, 0, entry.getSymName())))
          runOnReduce(program, reduce, 1);
    }
  }

  /// Joins what lies less than `gap` bytes apart.
  void runOnReduce(rank::ProgramOp program, rank::FuncOp reduce, int64_t gap) {
    ProgramNames names(program);
    llvm::MapVector<std::pair<Attribute, std::pair<Type, Attribute>>, SmallVector<Reduction>> groups;
    for (auto start : reduce.getBlock().getOps<rank::StartOp>())
      if (std::optional<Reduction> reduction = readReduction(start, names))
        groups[{reduction->row.getGroup(),
                {reduction->place.getResult().getType().getElementType(),
                 builder().getArrayAttr({reduction->place.getArenaAttr(), start.getCombineAttr()})}}]
            .push_back(*reduction);
    for (auto &[key, reductions] : groups) {
      llvm::sort(reductions, [](Reduction a, Reduction b) { return a.begin() < b.begin(); });
      size_t first = 0;
      for (size_t i = 1; i <= reductions.size(); ++i)
        if (i == reductions.size() || reductions[i].begin() - reductions[i - 1].end() >= gap) {
          join(MutableArrayRef(reductions).slice(first, i - first));
          first = i;
        }
    }
    for (auto place : llvm::make_early_inc_range(reduce.getBlock().getOps<rank::AtOp>()))
      if (place->use_empty())
        place.erase();
  }

  Builder builder() { return Builder(&getContext()); }
};

} // namespace
