// Sums of ranks become rows of stages.
#include "profile/profile_file.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <tuple>

#include "base/json_text.h"

namespace hycrt {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

constexpr double kSecond = 1e-9;  // of a nanosecond

// What a rank's step is made of, in seconds of all measured steps until they are divided.
struct Parts {
  double compute = 0, update = 0, exchange = 0, late = 0, disk = 0, data = 0, other = 0;

  double total() const { return compute + update + exchange + late + disk + data + other; }
  void add(const Parts& rank, double weight) {
    compute += rank.compute * weight;
    update += rank.update * weight;
    exchange += rank.exchange * weight;
    late += rank.late * weight;
    disk += rank.disk * weight;
    data += rank.data * weight;
    other += rank.other * weight;
  }
  Ordered toJson() const {
    return {{"total", total()}, {"compute", compute}, {"update", update}, {"exchange", exchange},
            {"late", late},     {"disk", disk},       {"data", data},     {"other", other}};
  }
};

// In a step.
size_t placeOf(const std::string& function) {
  static constexpr const char* kKinds[] = {"forward", "backward", "reduce", "apply"};
  size_t place = 0;
  while (place < std::size(kKinds) && function.rfind(kKinds[place], 0) != 0) ++place;
  return place;
}
bool isOfMicroBatch(const std::string& function) { return placeOf(function) < 2; }

double secondsOf(const Json& pair, size_t index) {
  return pair.is_array() && index < pair.size() && pair[index].is_number() ? pair[index].get<double>() * kSecond : 0;
}

}  // namespace

// What a step passes between stages, each kind of transfer once.
static Json transfersOf(const Program& program) {
  std::map<std::tuple<bool, bool, int>, std::pair<int64_t, int64_t>> sums;  // times and bytes
  const Entry& entry = program.entries[0];
  for (const TransferUse& use : entry.transferUses) {
    const TransferDesc& transfer = program.transfers[use.transfer];
    auto& [times, bytes] = sums[{transfer.direction == Direction::kSend, transfer.backward, transfer.peerStage}];
    ++times;
    bytes += transfer.bytes;
  }
  Json list = Json::array();
  for (const auto& [key, sum] : sums) {
    list.push_back({{"direction", std::get<0>(key) ? "send" : "receive"},
                    {"backward", std::get<1>(key)},
                    {"peer_stage", std::get<2>(key)},
                    {"times", sum.first},
                    {"bytes", sum.second}});
  }
  return list;
}

std::string toJsonLine(const Profile& profile, const Program& program, int rank) {
  const auto times = [](const ProfiledTime& time) { return Json::array({time.ns, time.lateNs}); };
  Json functions = Json::object();
  for (const ProfiledFunction& function : profile.functions()) {
    Json calls = Json::array(), merged = Json::array();
    for (const ProfiledTime& call : function.calls) calls.push_back(call.lateNs ? times(call) : Json::array({call.ns}));
    for (const auto& [first, count] : function.merged) merged.push_back({first, count});
    functions[function.name] = {{"executions", function.executions}, {"calls", calls}, {"merged", merged}};
  }
  Json lateFor = Json::array();
  for (size_t i = 0; i < profile.lateNsByRank().size(); ++i) {
    if (profile.lateNsByRank()[i] > 0) lateFor.push_back({i, profile.lateNsByRank()[i]});
  }
  return Json({{"rank", rank},
               {"steps", profile.steps()},
               {"functions", functions},
               {"inputs", times(profile.inputs())},
               {"transfers", times(profile.transfers())},
               {"rest", times(profile.rest())},
               {"between_stages", transfersOf(program)},
               {"late_for", lateFor}})
      .dump();
}

// What all ranks of a stage have given so far: in seconds of a rank's step, each rank with its part of the mean.
struct ProfileFile::Stage {
  struct Row {
    double times = 0, seconds = 0, late = 0, slowest = 0;
    double ownSeconds = 0;  // of the rank that is being added
  };
  Parts step;
  std::map<std::tuple<size_t, std::string, int64_t>, Row> rows;  // by function, in order, and row of ops.json
  Parts rank;                                                    // that is being added
  Ordered transfers = Ordered::array();
};

ProfileFile::ProfileFile(const Manifest& manifest, const OpsFile& ops, const ProfileFacts& facts)
    : manifest_(manifest), ops_(ops), facts_(facts) {
  for (size_t i = 0; i < ops.stages.size(); ++i) stages_.push_back(std::make_unique<Stage>());
}

ProfileFile::~ProfileFile() = default;

// The first of calls that end with one mark has the time of all, which they share as they would at the roof.
static std::vector<std::pair<double, double>> callTimes(const OpsStage& ops, const std::vector<int64_t>& rows,
                                                        const Json& function) {
  std::vector<std::pair<double, double>> times;
  for (const Json& call : function["calls"]) times.emplace_back(secondsOf(call, 0), secondsOf(call, 1));
  times.resize(rows.size());
  for (const Json& run : function["merged"]) {
    const size_t first = run[0].get<size_t>();
    const size_t end = std::min(first + run[1].get<size_t>(), rows.size());
    const auto weightOf = [&](size_t i) {
      return rows[i] < 0 ? 0 : ops.calls[static_cast<size_t>(rows[i])].roofSeconds + 1e-12;
    };
    double all = 0;
    for (size_t i = first; i < end; ++i) all += weightOf(i);
    const double seconds = first < end ? times[first].first : 0;
    for (size_t i = first; i < end && all > 0; ++i) times[i].first = seconds * weightOf(i) / all;
  }
  return times;
}

Status ProfileFile::addFunction(Stage& stage, const OpsStage& ops, const std::string& name, const Json& function) {
  const auto found = ops.functions.find(name);
  const size_t marks = function["calls"].size(), expected = found == ops.functions.end() ? 0 : found->second.size();
  if (function["executions"] == 0 || (marks == 0 && expected == 0)) return {};
  if (marks != expected) {
    return internalError("function '" + name + "' has " + std::to_string(marks) + " marks, ops.json tells of " +
                         std::to_string(expected));
  }
  const double steps = static_cast<double>(steps_), executions = function["executions"].get<double>() / steps;
  const std::vector<std::pair<double, double>> times = callTimes(ops, found->second, function);
  for (size_t i = 0; i < times.size(); ++i) {
    const int64_t number = found->second[i];
    const OpsCall& call = ops.calls[static_cast<size_t>(number < 0 ? -1 - number : number)];
    const double seconds = times[i].first / steps, late = times[i].second / steps;
    Stage::Row& row = stage.rows[{placeOf(name), name, number < 0 ? -1 - number : number}];
    const double ranks = ranksPerStage(manifest_.mesh);
    row.times += number < 0 ? 0 : executions / ranks;
    row.ownSeconds += seconds;
    row.late += late / ranks;
    const double own = call.kind == OpsCall::Kind::kExchange ? seconds - late : seconds;
    (call.kind == OpsCall::Kind::kExchange ? stage.rank.exchange
     : call.kind == OpsCall::Kind::kMove   ? stage.rank.disk
     : isOfMicroBatch(name)                ? stage.rank.compute
                                           : stage.rank.update) += own;
    if (call.kind == OpsCall::Kind::kExchange) stage.rank.late += late;
  }
  return {};
}

Status ProfileFile::add(std::string_view line) {
  Result<Json> read = parseJson(line, "profile of a rank");
  if (!read.ok()) return read.status();
  const Json& given = *read;
  const int rank = given["rank"].get<int>();
  const Coordinates at = coordinatesOf(manifest_.mesh, rank);
  const size_t number = static_cast<size_t>(at.stage);
  Stage& stage = *stages_[number];
  steps_ = std::max<int64_t>(1, given["steps"].get<int64_t>());
  stage.rank = {};
  for (const auto& [name, function] : given["functions"].items()) {
    HYCRT_RETURN_IF_ERROR(addFunction(stage, ops_.stages[number], name, function));
  }
  const double steps = static_cast<double>(steps_), ranks = ranksPerStage(manifest_.mesh);
  const double transfers = secondsOf(given["transfers"], 0) / steps, late = secondsOf(given["transfers"], 1) / steps;
  stage.rank.exchange += transfers - late;
  stage.rank.late += late;
  stage.rank.data = secondsOf(given["inputs"], 0) / steps;
  stage.rank.other = secondsOf(given["rest"], 0) / steps;
  for (auto& [key, row] : stage.rows) {
    row.seconds += row.ownSeconds / ranks;
    row.slowest = std::max(row.slowest, row.ownSeconds);
    row.ownSeconds = 0;
  }
  stage.step.add(stage.rank, 1 / ranks);
  stage.transfers = given["between_stages"];
  if (rank == 0) stepSeconds_ = stage.rank.total();
  std::vector<std::pair<double, int64_t>> lateFor;
  for (const Json& pair : given["late_for"]) lateFor.emplace_back(secondsOf(pair, 1) / steps, pair[0].get<int64_t>());
  std::sort(lateFor.rbegin(), lateFor.rend());
  Ordered coordinates = Ordered::object(), waited = Ordered::array();
  for (int i = 0; i < manifest_.mesh.axes.size; ++i) {
    coordinates[manifest_.mesh.axes[i].name] = coordinateOf(manifest_.mesh, at, {static_cast<Axis>(i)});
  }
  for (const auto& [seconds, other] : lateFor) waited.push_back({{"rank", other}, {"seconds", seconds}});
  ranks_[rank] = {{"rank", rank},
                  {"stage", at.stage},
                  {"coordinates", coordinates},
                  {"step", stage.rank.toJson()},
                  {"transfers", {{"seconds", transfers}, {"late_seconds", late}}},
                  {"late_for", waited}};
  return {};
}

namespace {

// What calls of one kind come to, in seconds of a step.
struct Sums {
  double times = 0, forward = 0, backward = 0, update = 0, operations = 0, bytes = 0, roof = 0;
  double seconds() const { return forward + backward + update; }
};

// By name, in the order in which names come first.
class SumsByName {
 public:
  Sums& operator[](const std::string& name) {
    const auto [found, isNew] = places_.try_emplace(name, list.size());
    if (isNew) list.emplace_back(name, Sums{});
    return list[found->second].second;
  }
  std::vector<std::pair<std::string, Sums>> list;

 private:
  std::map<std::string, size_t> places_;
};

void addTo(Sums& sums, const std::string& function, const OpsCall& call, double times, double seconds) {
  sums.times += times;
  const size_t place = placeOf(function);
  (place == 0 ? sums.forward : place == 1 ? sums.backward : sums.update) += seconds;
  sums.operations += call.operations * times;
  sums.bytes += call.bytes * times;
  sums.roof += call.roofSeconds * times;
}

Ordered layersOf(const SumsByName& layers) {
  Ordered list = Ordered::array();
  for (const auto& [name, sums] : layers.list) {
    list.push_back({{"layer", name},
                    {"forward", sums.forward},
                    {"backward", sums.backward},
                    {"update", sums.update},
                    {"operations", sums.operations},
                    {"bytes", sums.bytes},
                    {"roof_seconds", sums.roof}});
  }
  return list;
}

Ordered kernelsOf(SumsByName& kernels) {
  std::stable_sort(kernels.list.begin(), kernels.list.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds() > b.second.seconds(); });
  Ordered list = Ordered::array();
  for (const auto& [name, sums] : kernels.list) {
    list.push_back({{"kernel", name},
                    {"times", sums.times},
                    {"seconds", sums.seconds()},
                    {"operations", sums.operations},
                    {"bytes", sums.bytes},
                    {"roof_seconds", sums.roof}});
  }
  return list;
}

}  // namespace

Ordered ProfileFile::stageToJson(size_t number) const {
  const Stage& stage = *stages_[number];
  const int ranks = ranksPerStage(manifest_.mesh);
  SumsByName layers, kernels;
  Ordered ops = Ordered::array(), exchanges = Ordered::array();
  for (const auto& [key, row] : stage.rows) {
    const std::string& function = std::get<1>(key);
    const OpsCall& call = ops_.stages[number].calls[static_cast<size_t>(std::get<2>(key))];
    if (call.kind == OpsCall::Kind::kExchange) {
      exchanges.push_back({{"function", function},
                           {"layer", call.layer},
                           {"cause", call.cause},
                           {"because", call.because},
                           {"kind", call.what},
                           {"axes", call.axes},
                           {"stages", call.stages},
                           {"members", call.members},
                           {"times", row.times},
                           {"message_bytes", call.messageBytes},
                           {"sent_bytes", call.bytes * row.times},
                           {"seconds", row.seconds},
                           {"late_seconds", row.late},
                           {"roof_seconds", call.roofSeconds * row.times}});
      continue;
    }
    addTo(layers[call.layer], function, call, row.times, row.seconds);
    addTo(kernels[call.what], function, call, row.times, row.seconds);
    ops.push_back({{"function", function},
                   {"layer", call.layer},
                   {"op", call.op},
                   {"kernel", call.what},
                   {"times", row.times},
                   {"seconds", row.seconds},
                   {"slowest_seconds", row.slowest},
                   {"operations", call.operations * row.times},
                   {"bytes", call.bytes * row.times},
                   {"roof_seconds", call.roofSeconds * row.times},
                   {"bound", call.bound}});
  }
  return {{"stage", number},
          {"first_rank", static_cast<int64_t>(number) * ranks},
          {"ranks", ranks},
          {"step", stage.step.toJson()},
          {"layers", layersOf(layers)},
          {"kernels", kernelsOf(kernels)},
          {"ops", ops},
          {"exchanges", exchanges},
          {"transfers", stage.transfers}};
}

Ordered ProfileFile::finish() const {
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(manifest_.planHash));
  Ordered mesh = Ordered::object(), axes = Ordered::array();
  for (const MeshAxis& axis : manifest_.mesh.axes) {
    axes.push_back(axis.name);
    mesh[axis.name] = axis.size;
  }
  mesh["pp"] = manifest_.mesh.stages;
  const BatchDesc& batch = manifest_.batch;
  Ordered stages = Ordered::array(), ranks = Ordered::array();
  for (size_t i = 0; i < stages_.size(); ++i) stages.push_back(stageToJson(i));
  for (const auto& [number, rank] : ranks_) ranks.push_back(rank);
  return {{"format_version", 1},
          {"name", manifest_.name},
          {"plan_hash", hash},
          {"machine", ops_.machine},
          {"mesh", mesh},
          {"axes", axes},
          {"batch", {{"micro_batch", batch.samples}, {"grad_accum", batch.microBatches}, {"sequence", batch.sequence}}},
          {"steps", steps_},
          {"threads", facts_.threads},
          {"communication_thread", facts_.communicationThread},
          {"device", facts_.onDevice},
          {"step_seconds", stepSeconds_},
          {"stages", stages},
          {"ranks", ranks}};
}

}  // namespace hycrt
