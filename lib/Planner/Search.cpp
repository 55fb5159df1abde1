// Enumeration, bounds and order.
#include "hyc/Planner/Search.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <chrono>

using namespace llvm;
using namespace hyc;

StringRef hyc::describeUntried() {
  return "recomputation by a limit (auto), states on a disk, partitioned activations, bucket sizes, further axes, "
         "shardings other than the seeds', and micro-batches of which one layer alone fills a device";
}

static std::vector<int64_t> divisorsOf(int64_t number) {
  std::vector<int64_t> low, high;
  for (int64_t divisor = 1; divisor * divisor <= number; ++divisor)
    if (number % divisor == 0) {
      low.push_back(divisor);
      if (divisor != number / divisor)
        high.push_back(number / divisor);
    }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

namespace {
class Search {
public:
  Search(CostModel &costs, const SearchRequest &request) : costs(costs), request(request) {}

  SearchResult run() {
    for (int64_t tp : choices<&Plan::tp>(divisorsOf(request.ranks)))
      if (request.ranks % tp == 0)
        withTensor(tp);
    finish();
    return std::move(result);
  }

private:
  struct Found {
    ScoredLayout scored;
    const ModelCost *model;
    size_t order;
  };

  template <auto Member> bool isFixed() const { return is_contained(request.isFixed, memberOfPlan<Member>); }
  /// The one value that is fixed, else all of `open`.
  template <auto Member, typename T> std::vector<T> choices(std::vector<T> open) const {
    if (!isFixed<Member>())
      return open;
    for (const VariedSetting &varied : getVariedSettings())
      if (varied.setting == memberOfPlan<Member>)
        return {std::get<Plain<T>>(varied.get(request.fixed))};
    return open;
  }

  bool isOver() {
    if (request.seconds > 0 && !found.empty() &&
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > request.seconds)
      result.ranOut = true;
    return result.ranOut;
  }

  void withTensor(int64_t tp) {
    Layout layout = request.fixed;
    layout.tp = tp;
    for (bool sequence :
         choices<&Plan::sequenceParallel>(tp > 1 ? std::vector<bool>{false, true} : std::vector<bool>{false}))
      for (const Choice<RecomputeMode> &recompute : choices<&Plan::recompute>(std::vector<Choice<RecomputeMode>>{
               RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Layer})) {
        layout.sequenceParallel = sequence;
        layout.recompute = recompute;
        if (recompute != RecomputeMode::Selective || !isPlain)
          withSplit(layout);
      }
  }

  void withSplit(Layout layout) {
    const int64_t rest = request.ranks / layout.tp;
    // The micro-batch outermost: costs are those of a rank's samples, however many ranks there are.
    std::map<int64_t, std::vector<Layout>> byMicroBatch;
    for (int64_t pp : choices<&Plan::pp>(divisorsOf(rest))) {
      if (rest % pp != 0 || pp > static_cast<int64_t>(costs.countLayers()))
        continue;
      layout.pp = pp;
      layout.dp = rest / pp;
      if (isFixed<&Plan::dp>() && layout.dp != request.fixed.dp)
        continue;
      if (request.globalBatch % layout.dp != 0)
        continue;
      for (int64_t micro : microBatches(layout.dp)) {
        layout.microBatch = micro;
        layout.gradAccum = request.globalBatch / layout.dp / micro;
        if (layout.gradAccum <= kMaxBatch &&
            (!isFixed<&Plan::gradAccum>() || layout.gradAccum == request.fixed.gradAccum))
          byMicroBatch[micro].push_back(layout);
      }
    }
    Operations operations;
    for (const auto &[micro, layouts] : byMicroBatch) {
      if (isOver())
        continue;
      if (operations.isKnown() && isTooSlow(operations.of(micro), layouts)) {
        result.tooSlow += layouts.size();
        continue;
      }
      if (!withMicroBatch(layouts))
        return;
      if (const ModelCost *model = costs.costOfModel(layouts.front()))
        operations.note(micro, *model);
    }
  }

  /// Of one micro-batch of some size, all layers on one rank each: a line through two sizes that were looked at.
  class Operations {
  public:
    bool isKnown() const { return points.size() == 2; }
    void note(int64_t micro, const ModelCost &model) {
      if (isKnown())
        return;
      double sum = 0;
      for (const LayerCost &layer : model.layers)
        sum += layer.operations;
      points.push_back({static_cast<double>(micro), sum});
    }
    double of(int64_t micro) const {
      auto [first, low] = points[0];
      auto [second, high] = points[1];
      return low + (high - low) * (static_cast<double>(micro) - first) / (second - first);
    }

  private:
    std::vector<std::pair<double, double>> points;
  };

  /// Whether no layout of these, which have one micro-batch, can come into any list of the result.
  bool isTooSlow(double operations, const std::vector<Layout> &layouts) const {
    // What comes closest is only told where nothing fits.
    if (found.size() < request.most || !result.closest ||
        (request.limit > 0 && result.closest->cost.bytes > kFitsWell * request.limit))
      return false;
    std::vector<double> bounds;
    for (const Layout &layout : layouts) {
      std::vector<int64_t> pieces = virtualStages(layout);
      int64_t most = pieces.empty() ? 1 : *llvm::max_element(pieces);
      std::optional<double> least = costs.leastSeconds(operations, layout, most);
      if (!least || !hasFaster(layout, *least))
        return false;
      bounds.push_back(*least);
    }
    std::vector<double> listed;
    for (const Found &one : found)
      listed.push_back(one.scored.cost.seconds);
    auto last = listed.begin() + static_cast<std::ptrdiff_t>(request.most - 1);
    std::nth_element(listed.begin(), last, listed.end());
    return llvm::all_of(bounds, [&](double bound) { return bound * kRounded > *last; });
  }

  /// Whether for every ZeRO stage of this division of ranks something that may fit takes less than `seconds`.
  bool hasFaster(const Layout &layout, double seconds) const {
    return llvm::all_of(zeroStages(layout), [&](int64_t zero) {
      auto best = splits.find({layout.tp, layout.pp, layout.dp, zero});
      return best != splits.end() && !isTooLarge(best->second) && best->second.cost.seconds < seconds * kRounded;
    });
  }

  std::vector<int64_t> microBatches(int64_t dp) {
    int64_t ofRank = request.globalBatch / dp;
    if (int64_t fixed = costs.fixedBatch()) {
      bool isKept = !isFixed<&Plan::microBatch>() || request.fixed.microBatch * dp == fixed;
      bool divides = fixed % dp == 0 && ofRank % (fixed / dp) == 0;
      return divides && isKept ? std::vector<int64_t>{fixed / dp} : std::vector<int64_t>();
    }
    auto [found, isNew] = divisors.try_emplace(ofRank);
    if (isNew)
      found->second = divisorsOf(ofRank);
    std::vector<int64_t> result = choices<&Plan::microBatch>(found->second);
    llvm::erase_if(result, [&](int64_t micro) { return ofRank % micro != 0 || micro > kMaxBatch; });
    return result;
  }

  /// Whether a larger micro-batch may fit.
  bool withMicroBatch(const std::vector<Layout> &layouts) {
    bool mayFit = false;
    for (const Layout &layout : layouts) {
      const ModelCost *model = costs.costOfModel(layout);
      ++result.shapes;
      if (!model) {
        if (result.impossible++ == 0)
          result.unplannable = layout;
        continue;
      }
      // Some rank keeps at least what the hungriest layer saves of one micro-batch.
      double saved = 0;
      for (const LayerCost &layer : model->layers)
        saved = std::max(saved, layer.saved);
      bool isMoved = isFixed<&Plan::offloadActivations>() && layout.offloadActivations != OffloadPlace::None;
      mayFit |= request.limit == 0 || isMoved || saved <= request.limit;
      if (layout.recompute == RecomputeMode::Selective && (isPlain = savesAsMuch(*model, layout)))
        return false;
      withModel(*model, layout);
    }
    return mayFit;
  }

  /// Whether there is nothing in the model that selective recomputation computes again.
  bool savesAsMuch(const ModelCost &model, Layout layout) {
    layout.recompute = RecomputeMode::None;
    const ModelCost *plain = isFixed<&Plan::recompute>() ? nullptr : costs.costOfModel(layout);
    return plain && llvm::equal(plain->layers, model.layers, [](const LayerCost &a, const LayerCost &b) {
             return a.saved == b.saved && a.backward == b.backward;
           });
  }

  void withModel(const ModelCost &model, Layout layout) {
    for (int64_t pieces : virtualStages(layout)) {
      layout.virtualStages = pieces;
      const Cut &cut = cutFor(model, layout);
      if (cut.stages.empty())
        continue;
      for (int64_t zero : zeroStages(layout))
        for (int64_t prefetch :
             choices<&Plan::prefetch>(zero == 3 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0})) {
          layout.zero = zero;
          layout.prefetch = prefetch;
          withOffload(model, layout, cut.stages);
        }
    }
  }

  std::vector<int64_t> zeroStages(const Layout &layout) const {
    return choices<&Plan::zero>(layout.dp > 1 ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{0});
  }

  /// Any number of pieces of at least a layer each.
  std::vector<int64_t> virtualStages(const Layout &layout) const {
    int64_t most = static_cast<int64_t>(costs.countLayers()) / layout.pp;
    bool interleaves = layout.pp > 1 && layout.schedule == PipelineSchedule::OneForwardOneBackward &&
                       layout.gradAccum % layout.pp == 0;
    std::vector<int64_t> open{1};
    for (int64_t pieces = 2; pieces <= most && interleaves; ++pieces)
      open.push_back(pieces);
    std::vector<int64_t> result = choices<&Plan::virtualStages>(open);
    llvm::erase_if(result, [&](int64_t pieces) { return pieces > 1 && (!interleaves || pieces > most); });
    return result;
  }

  struct Cut {
    std::vector<size_t> ends;
    std::vector<StageCost> stages; ///< none where there are fewer chunks than wanted
  };
  const Cut &cutFor(const ModelCost &model, const Layout &layout) {
    auto [found, isNew] = cuts.try_emplace({&model, layout.pp, layout.virtualStages});
    if (isNew) {
      found->second.ends = costs.cut(model, layout);
      if (static_cast<int64_t>(found->second.ends.size()) == layout.pp * layout.virtualStages)
        found->second.stages = costs.sum(model, layout, found->second.ends);
    }
    return found->second;
  }

  void withOffload(const ModelCost &model, Layout layout, const std::vector<StageCost> &stages) {
    for (const Choice<OffloadPlace> &optimizer : places.optimizer)
      for (const Choice<OffloadPlace> &gradients :
           optimizer == OffloadPlace::None ? places.gradientsBesideNone : places.gradients)
        for (const Choice<OffloadPlace> &activations : places.activations)
          for (const Choice<OffloadPlace> &parameters : places.parameters) {
            layout.offloadOptimizer = optimizer;
            layout.offloadGradients = gradients;
            layout.offloadActivations = activations;
            layout.offloadParam = parameters;
            layout.room = canMoveSingly(layout) ? request.limit : 0;
            // Moving things only takes time where nothing has to leave.
            if (score(model, layout, stages))
              return;
          }
  }

  /// What somebody has fixed is meant of all states.
  bool canMoveSingly(const Layout &layout) const {
    bool moves = layout.offloadOptimizer != OffloadPlace::None || layout.offloadGradients != OffloadPlace::None ||
                 layout.offloadParam != OffloadPlace::None;
    return request.movesSingly && request.limit > 0 && moves && !isFixed<&Plan::offloadOptimizer>() &&
           !isFixed<&Plan::offloadGradients>() && !isFixed<&Plan::offloadParam>();
  }

  bool isTooLarge(const ScoredLayout &scored) const {
    return request.limit > 0 && scored.cost.leastBytes > request.limit;
  }

  void noteForSplit(const ScoredLayout &scored) {
    const Layout &layout = scored.layout;
    auto [entry, isNew] = splits.try_emplace({layout.tp, layout.pp, layout.dp, layout.zero}, scored);
    ScoredLayout &best = entry->second;
    bool isWorse = isTooLarge(scored);
    if (isNew || isWorse > isTooLarge(best))
      return;
    bool isBetter = isWorse < isTooLarge(best) ||
                    (isWorse ? scored.cost.bytes < best.cost.bytes : scored.cost.seconds < best.cost.seconds);
    if (isBetter)
      best = scored;
  }

  /// Whether it fits well.
  bool score(const ModelCost &model, const Layout &layout, const std::vector<StageCost> &stages) {
    ScoredLayout scored{layout, costs.costOf(model, layout, stages), {}};
    if (scored.cost.bytes > layout.room * (1 + 1e-9)) // all of it is moved
      scored.layout.room = 0;
    ++result.scored;
    if (!result.closest || scored.cost.bytes < result.closest->cost.bytes)
      result.closest = scored;
    noteForSplit(scored);
    if (isTooLarge(scored)) {
      ++result.tooLarge;
      return false;
    }
    if (!scored.cost.isRedundant) {
      noteIfSmall({scored, &model, order});
      keep({scored, &model, order++});
    }
    return request.limit == 0 || (layout.room == 0 && scored.cost.bytes <= kFitsWell * request.limit);
  }

  /// The fastest that are wanted, and not many more meanwhile.
  void keep(Found &&one) {
    found.push_back(std::move(one));
    if (found.size() < 2 * request.most + kRoom)
      return;
    std::nth_element(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(request.most), found.end(), isBefore);
    found.resize(request.most);
  }

  /// Those that need least, in their order. One that moves states until it fits needs all there is.
  void noteIfSmall(Found &&one) {
    auto needsLess = [](const Found &a, const Found &b) { return a.scored.cost.bytes < b.scored.cost.bytes; };
    if (smallest.size() == kMostSmallest && !needsLess(one, smallest.back()))
      return;
    smallest.insert(std::upper_bound(smallest.begin(), smallest.end(), one, needsLess), std::move(one));
    if (smallest.size() > kMostSmallest)
      smallest.pop_back();
  }

  /// What cannot be told apart by time is told apart by memory, then by the order of trying: plainer first.
  static bool isBefore(const Found &a, const Found &b) {
    return std::tie(a.scored.cost.seconds, a.scored.cost.bytes, a.order) <
           std::tie(b.scored.cost.seconds, b.scored.cost.bytes, b.order);
  }

  void finish() {
    for (auto &[split, scored] : splits)
      result.ofSplits.push_back(std::move(scored));
    size_t wanted = std::min(found.size(), request.most);
    std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(wanted), found.end(), isBefore);
    for (const Found &each : ArrayRef(found).take_front(wanted))
      result.best.push_back(withCuts(each));
    for (const Found &each : smallest)
      result.smallest.push_back(withCuts(each));
  }

  ScoredLayout withCuts(const Found &one) const {
    ScoredLayout scored = one.scored;
    const std::vector<size_t> &ends = cuts.at({one.model, scored.layout.pp, scored.layout.virtualStages}).ends;
    for (size_t end : ArrayRef(ends).drop_back())
      scored.cuts.push_back(costs.opOfLayer(end));
    return scored;
  }

  /// Estimates of memory are this good, so that what needs less than this part of the limit fits.
  static constexpr double kFitsWell = 0.8;
  static constexpr size_t kRoom = 4096;
  static constexpr size_t kMostSmallest = 8;
  /// Sums that are equal but for rounding do not decide.
  static constexpr double kRounded = 1 - 1e-9;

  /// Where each kind of what is kept may be.
  struct Places {
    std::vector<Choice<OffloadPlace>> optimizer, gradients, gradientsBesideNone, activations, parameters;
  };
  Places findPlaces() const {
    const std::vector<Choice<OffloadPlace>> all{OffloadPlace::None, OffloadPlace::Cpu}, none{OffloadPlace::None};
    return {choices<&Plan::offloadOptimizer>(all), choices<&Plan::offloadGradients>(all),
            choices<&Plan::offloadGradients>(none), choices<&Plan::offloadActivations>(all),
            choices<&Plan::offloadParam>(all)};
  }

  CostModel &costs;
  const SearchRequest &request;
  const Places places = findPlaces();
  SearchResult result;
  std::map<int64_t, std::vector<int64_t>> divisors; ///< of a rank's samples
  bool isPlain = false; ///< no attention is written out that selective recomputation could compute again
  std::vector<Found> found, smallest;
  size_t order = 0;                                                              ///< of the next layout
  std::map<std::tuple<const ModelCost *, int64_t, int64_t>, Cut> cuts;           ///< by stages and pieces
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, ScoredLayout> splits; ///< by tp, pp, dp and ZeRO stage
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};
} // namespace

SearchResult hyc::searchLayouts(CostModel &costs, const SearchRequest &request) { return Search(costs, request).run(); }
