// The page put together of its template and its data.
#include "Page/PlanPage.h"

#include "Folder/ProgramFolder.h"
#include "Page/PageData.h"
#include "Report/MemoryReport.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <limits>

using namespace llvm;
using namespace hyc;

/// page.html, page.css and page.js.
static constexpr unsigned char kTemplate[] = {
#include "PageTemplate.inc"
};
static constexpr StringLiteral kDataMark = "/*DATA*/null";

/// Instructions in all stages' rows, and stages of which each has one.
static constexpr size_t kMostInstructions = 40000, kMostTimelineStages = 64;

static json::Value text(StringRef value) { return json::fixUTF8(value); }

int64_t hyc::wholeNumber(double value) {
  constexpr double most = 9007199254740992.0; // 2^53: what a page's numbers hold
  return static_cast<int64_t>(std::llround(std::min(value, most)));
}

std::vector<size_t> hyc::chooseStages(size_t count, size_t most, size_t special) {
  std::vector<bool> isChosen(count, count <= most);
  if (count > most) {
    isChosen[special] = true;
    for (size_t i = 0; i + 1 < most; ++i)
      isChosen[i * (count - 1) / (most - 2 + (most == 2))] = true;
  }
  std::vector<size_t> chosen;
  for (size_t stage = 0; stage < count; ++stage)
    if (isChosen[stage])
      chosen.push_back(stage);
  return chosen;
}

void hyc::writeTimeline(json::OStream &json, const CompiledModel &model) {
  if (!model.time)
    return;
  const StepTime &time = model.time->overlapped;
  json.attribute("seconds", nanoseconds(time.seconds()));
  json.attribute("inTurn", nanoseconds(model.time->inTurn.seconds()));
  json.attributeArray("stageTimes", [&] {
    for (const StageTime &stage : time.stages)
      json.array([&] {
        json.value(nanoseconds(stage.computation));
        json.value(nanoseconds(stage.exposed));
        json.value(nanoseconds(stage.idle));
      });
  });
  std::vector<size_t> shown = chooseStages(time.instructions.size(), kMostTimelineStages, 0);
  size_t most = kMostInstructions / std::max<size_t>(1, shown.size());
  json.attributeArray("timeline", [&] {
    for (size_t index : shown)
      json.object([&] {
        const StageAccount &stage = model.account.stages[index];
        size_t count = std::min({most, time.instructions[index].size(), stage.instructions.size()});
        json.attribute("stage", stage.stage);
        json.attribute("ranks", describeRanks(model.account, stage));
        json.attribute("all", static_cast<int64_t>(time.instructions[index].size()));
        json.attributeArray("instructions", [&] {
          for (size_t i = 0; i < count; ++i)
            if (const InstructionTime &each = time.instructions[index][i]; each.time.total() > 0)
              json.array([&] {
                json.value(stage.instructions[i].kind);
                json.value(stage.instructions[i].microBatch);
                json.value(nanoseconds(each.begin));
                json.value(nanoseconds(each.time.computation));
                json.value(nanoseconds(each.time.exposed));
                json.value(nanoseconds(each.time.idle));
              });
        });
      });
  });
}

/// The innermost tier that holds `extent` consecutive ranks; -1: beyond all.
static int64_t tierOf(ArrayRef<MachineTier> tiers, int64_t extent) {
  for (auto [index, tier] : enumerate(tiers))
    if (extent <= tier.ranks)
      return static_cast<int64_t>(index);
  return -1;
}

/// Axes from the innermost, whose neighbours are consecutive ranks, to the stages.
static void writeMesh(json::OStream &json, const CompiledModel &model) {
  const Plan &plan = model.plan;
  ArrayRef<MachineTier> tiers;
  if (model.time)
    tiers = model.time->rates.tiers;
  int64_t stride = 1;
  auto writeAxis = [&](StringRef name, int64_t size) {
    json.object([&] {
      json.attribute("name", text(name));
      json.attribute("size", size);
      json.attribute("stride", stride);
      json.attribute("tier", tiers.empty() ? -1 : tierOf(tiers, (size - 1) * stride + 1));
    });
    stride *= size;
  };
  json.attributeArray("axes", [&] {
    for (const auto &[name, size] : reverse(model.axes))
      writeAxis(name, size);
    writeAxis("pp", plan.pp);
  });
  json.attribute("ranks", plan.rankCount());
  json.attribute("stages", *plan.pp);
  json.attribute("machine", text(model.time ? model.time->rates.name : ""));
  json.attributeArray("tiers", [&] {
    for (const MachineTier &tier : tiers)
      json.object([&] {
        json.attribute("name", text(tier.name));
        json.attribute("ranks", tier.ranks);
        json.attribute("rate", wholeNumber(tier.rates.back().value));
      });
  });
}

/// What was decided, in words.
static void writeFacts(json::OStream &json, const CompiledModel &model) {
  const Plan &plan = model.plan;
  json.attributeArray("facts", [&] {
    auto fact = [&](StringRef name, const std::string &value) {
      json.array([&] {
        json.value(name);
        json.value(text(value));
      });
    };
    fact("global batch", std::to_string(model.microBatch * *plan.gradAccum * *plan.dp) + " = micro-batch " +
                             std::to_string(model.microBatch) + " × grad-accum " + std::to_string(*plan.gradAccum) +
                             " × dp " + std::to_string(*plan.dp));
    if (model.sequence > 0)
      fact("tokens of a sample", std::to_string(model.sequence));
    fact("schedule", plan.schedule->str() + (plan.virtualStages == 1
                                                 ? std::string()
                                                 : ", " + std::to_string(*plan.virtualStages) + " virtual stages"));
    fact("ZeRO stage", std::to_string(*plan.zero));
    fact("precision", plan.precision->str());
    fact("recomputation", plan.recompute->str());
    std::string offload;
    auto moves = [&](const std::string &what, const Choice<OffloadPlace> &place) {
      if (place != OffloadPlace::None)
        offload += (offload.empty() ? "" : ", ") + what + " to " + place.str();
    };
    moves("optimizer", *plan.offloadOptimizer);
    moves("parameters", *plan.offloadParam);
    moves("gradients", *plan.offloadGradients);
    moves("activations", plan.rules.offloadsActivations() ? OffloadPlace::Cpu : OffloadPlace::None);
    fact("offload", offload.empty() ? "none" : offload);
  });
}

static void writeCandidates(json::OStream &json, ArrayRef<Candidate> candidates) {
  json.attributeArray("candidates", [&] {
    for (const Candidate &each : candidates)
      json.object([&] {
        json.attribute("flags", each.flags);
        json.attribute("seconds", nanoseconds(each.seconds));
        json.attribute("computation", nanoseconds(each.computation));
        json.attribute("exposed", nanoseconds(each.exposed));
        json.attribute("idle", nanoseconds(each.idle));
        json.attribute("bytes", wholeNumber(each.bytes));
        json.attribute("isPlanned", each.isPlanned);
        json.attribute("isTaken", each.isTaken);
        json.attribute("isTooLarge", each.isTooLarge);
      });
  });
}

/// JSON inside a script: no "</script>", whatever a tensor is called.
static std::string embeddable(const std::string &json) {
  std::string result;
  result.reserve(json.size());
  for (char c : json)
    if (c == '<')
      result += "\\u003c";
    else
      result += c;
  return result;
}

std::string hyc::writePlanPage(const CompiledModel &model) {
  std::string data;
  raw_string_ostream os(data);
  json::OStream json(os);
  json.object([&] {
    json.attribute("name", text(model.name));
    writeFacts(json, model);
    writeMesh(json, model);
    json.attribute("limit", wholeNumber(model.memoryLimit));
    json.attribute("device", model.account.mostDeviceBytes());
    json.attributeArray("stageBytes", [&] {
      for (const StageAccount &stage : model.account.stages)
        json.value(stage.deviceBytes());
    });
    writeTimeline(json, model);
    writeMemory(json, model.account);
    writeTables(json, model);
    writeCandidates(json, model.candidates);
  });
  StringRef page(reinterpret_cast<const char *>(kTemplate), sizeof kTemplate);
  auto [before, after] = page.split(kDataMark);
  return before.str() + embeddable(data) + after.str();
}
