// Reading and finding a machine's file.
#include "hyc/Planner/Machine.h"

#include "hyc/Support/DriverError.h"
#include "hyc/Support/JsonFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>

using namespace llvm;
using namespace hyc;

static constexpr uint64_t kMaxBytes = 1 << 20;
static constexpr size_t kMostTiers = 8, kMostPoints = 64, kMostKinds = 64;
static constexpr double kMostRate = 1e18, kMostSeconds = 10;
static constexpr int64_t kMostTierRanks = int64_t(1) << 40;

static constexpr MachineKey kKeys[] = {
    {"products", &MachineRates::products, 1, kMostRate, "operations of matrix products a second"},
    {"narrow_products", &MachineRates::narrowProducts, 1, kMostRate, "of those with operands of 16 bits"},
    {"fp8_products", &MachineRates::fp8Products, 1, kMostRate, "of those with operands of 8 bits; 0: as of 16"},
    {"attention_share", &MachineRates::attentionShare, 0, 1,
     "of their rate, what fused attention reaches; 0: as a product"},
    {"memory", &MachineRates::memory, 1, kMostRate, "bytes a second that kernels read and write"},
    {"product_memory", &MachineRates::productMemory, 0, kMostRate,
     "bytes a second that products take beside their operations; 0: while they go on"},
    {"memory_share", &MachineRates::memoryShare, 1e-6, 1, "of memory that kernels reach"},
    {"link", &MachineRates::link, 1, kMostRate, "bytes a second sent to other ranks"},
    {"latency", &MachineRates::latency, 0, kMostSeconds, "seconds of an exchange, whatever it carries"},
    {"host", &MachineRates::host, 1, kMostRate, "bytes a second between device and host"},
    {"disk", &MachineRates::disk, 1, kMostRate, "bytes a second of the disk"},
    {"launch", &MachineRates::launch, 0, kMostSeconds, "seconds that no kernel is done in"},
    {"dispatch", &MachineRates::dispatch, 0, kMostSeconds,
     "seconds of the host for each kernel and exchange that it starts, ahead of the device"},
    {"overlap_share", &MachineRates::overlapShare, 0, 1,
     "of their rate, what kernels keep while an exchange goes on beside them"},
    {"device_memory", &MachineRates::deviceMemory, 1, kMostRate, "bytes of a device; 0 where nothing tells"},
};

ArrayRef<MachineKey> hyc::getMachineKeys() { return kKeys; }

/// An array of objects with a size and a value each, in the order of their sizes.
static Error readPoints(const JsonObjectReader &from, StringRef key, StringRef sizeKey, StringRef valueKey, double most,
                        std::vector<SizedValue> &points) {
  points.clear();
  Error error = from.readObjects(key, [&](const JsonObjectReader &each) -> Error {
    SizedValue point;
    if (Error wrong = each.checkKeys({sizeKey, valueKey}))
      return wrong;
    if (Error wrong = each.read(sizeKey, point.size, 1, kMostRate))
      return wrong;
    if (Error wrong = each.read(valueKey, point.value, 1e-6, most))
      return wrong;
    if (!points.empty() && point.size <= points.back().size)
      return each.fail(sizeKey,
                       "\"" + sizeKey + "\" is no larger than the one before it; order them from the smallest");
    if (points.size() == kMostPoints)
      return each.fail(sizeKey, "\"" + key + "\" has more than " + Twine(kMostPoints) + " sizes; leave some out");
    points.push_back(point);
    return Error::success();
  });
  if (!error && points.empty())
    return from.fail(key, "\"" + key + "\" is empty, expected at least one " + sizeKey + " with its " + valueKey);
  return error;
}

static Error readTier(const JsonObjectReader &from, std::vector<MachineTier> &tiers) {
  MachineTier tier;
  static constexpr std::pair<StringLiteral, std::vector<SizedValue> MachineTier::*> kOthers[] = {
      {"gather_rates", &MachineTier::gatherRates},
      {"scatter_rates", &MachineTier::scatterRates},
      {"transfer_rates", &MachineTier::transferRates}};
  std::vector<StringRef> optional{"hop_latency", "measured_ranks"};
  for (const auto &[key, member] : kOthers)
    optional.push_back(key);
  if (Error error = from.checkKeys({"name", "ranks", "latency", "rates"}, optional))
    return error;
  if (Error error = from.read("name", tier.name))
    return error;
  if (Error error = from.read("ranks", tier.ranks, 2, kMostTierRanks))
    return error;
  if (Error error = from.read("latency", tier.latency, 0, kMostSeconds))
    return error;
  if (from.has("hop_latency"))
    if (Error error = from.read("hop_latency", tier.hopLatency, 0, kMostSeconds))
      return error;
  tier.measuredRanks = tier.ranks;
  if (from.has("measured_ranks"))
    if (Error error = from.read("measured_ranks", tier.measuredRanks, 2, tier.ranks))
      return error;
  if (Error error = readPoints(from, "rates", "bytes", "rate", kMostRate, tier.rates))
    return error;
  for (const auto &[key, member] : kOthers)
    if (from.has(key))
      if (Error error = readPoints(from, key, "bytes", "rate", kMostRate, tier.*member))
        return error;
  if (tiers.size() == kMostTiers)
    return from.fail("name", "there are more than " + Twine(kMostTiers) + " tiers; join some");
  if (!tiers.empty() && (tier.ranks <= tiers.back().ranks || tier.ranks % tiers.back().ranks != 0))
    return from.fail("ranks", "tier \"" + tier.name + "\" has " + Twine(tier.ranks) +
                                  " ranks, expected a multiple of the " + Twine(tiers.back().ranks) + " of \"" +
                                  tiers.back().name + "\" inside it; order tiers from the innermost");
  tiers.push_back(std::move(tier));
  return Error::success();
}

static Error readTiers(const JsonObjectReader &root, MachineRates &rates) {
  if (!root.has("tiers"))
    return Error::success();
  for (StringRef key : {"link", "latency"})
    if (root.has(key))
      return root.fail(key, "\"" + key + "\" is given beside \"tiers\", each of which has its own; leave it out");
  rates.tiers.clear();
  if (Error error =
          root.readObjects("tiers", [&](const JsonObjectReader &each) { return readTier(each, rates.tiers); }))
    return error;
  if (rates.tiers.empty())
    return root.fail("tiers", "\"tiers\" is empty, expected at least one; or leave it out and give \"link\"");
  return Error::success();
}

/// What a kind leaves out is the machine's.
static Error readKind(const JsonObjectReader &from, MachineRates &rates) {
  static constexpr std::pair<StringLiteral, double RankKind::*> kOwn[] = {
      {"products", &RankKind::products},
      {"narrow_products", &RankKind::narrowProducts},
      {"fp8_products", &RankKind::fp8Products},
      {"memory", &RankKind::memory},
      {"device_memory", &RankKind::deviceMemory}};
  std::vector<StringRef> keys;
  for (const auto &[key, member] : kOwn)
    keys.push_back(key);
  if (Error error = from.checkKeys({"name", "ranks"}, keys))
    return error;
  RankKind kind{"", 1, rates.products, rates.narrowProducts, rates.fp8Products, rates.memory, rates.deviceMemory};
  if (Error error = from.read("name", kind.name))
    return error;
  if (Error error = from.read("ranks", kind.ranks, 1, kMostTierRanks))
    return error;
  for (const auto &[key, member] : kOwn)
    if (from.has(key))
      if (Error error = from.read(key, kind.*member, 1, kMostRate))
        return error;
  if (rates.kinds.size() == kMostKinds)
    return from.fail("name", "there are more than " + Twine(kMostKinds) + " kinds; join some");
  rates.kinds.push_back(std::move(kind));
  return Error::success();
}

/// After all else, of which kinds take over what they do not say.
static Error readKinds(const JsonObjectReader &root, MachineRates &rates) {
  rates.kinds.clear();
  if (!root.has("kinds"))
    return Error::success();
  if (Error error = root.readObjects("kinds", [&](const JsonObjectReader &each) { return readKind(each, rates); }))
    return error;
  if (rates.kinds.empty())
    return root.fail("kinds", "\"kinds\" is empty, expected at least one; or leave it out where all ranks are alike");
  if (!rates.tiers.empty() && rates.mostRanks() > rates.tiers.back().ranks)
    return root.fail("kinds", "\"kinds\" have " + Twine(rates.mostRanks()) + " ranks together, but the last tier, \"" +
                                  rates.tiers.back().name + "\", has " + Twine(rates.tiers.back().ranks) +
                                  "; give it as many");
  return Error::success();
}

static Error readRates(const JsonObjectReader &root, MachineRates &rates) {
  std::vector<StringRef> keys{"name", "product_share", "tiers", "kinds", "sources"};
  for (const MachineKey &each : kKeys)
    keys.push_back(each.key);
  if (Error error = root.checkKeys({}, keys))
    return error;
  rates.productMemory = 0; // the default is a CPU's; the file's machine may be a GPU
  for (const MachineKey &each : kKeys)
    if (root.has(each.key))
      if (Error error = root.read(each.key, rates.*each.value, each.least, each.most))
        return error;
  if (root.has("name"))
    if (Error error = root.read("name", rates.name))
      return error;
  std::vector<std::string> sources; // for people
  if (root.has("sources"))
    if (Error error = root.read("sources", sources))
      return error;
  if (root.has("product_share"))
    if (Error error = readPoints(root, "product_share", "operations", "share", 1, rates.productShare))
      return error;
  if (Error error = readTiers(root, rates))
    return error;
  return readKinds(root, rates);
}

Expected<MachineRates> hyc::readMachine(const std::string &path, MachineRates rates) {
  if (Error error = readJsonFile("machine", path, kMaxBytes,
                                 [&](const JsonObjectReader &root) { return readRates(root, rates); }))
    return error;
  if (rates.name.empty())
    rates.name = sys::path::stem(path).str();
  return rates;
}

Expected<std::string> hyc::findMachine(const std::string &name, const std::string &folder) {
  StringRef text = name;
  if (text.contains('/') || text.ends_with(".json") || sys::fs::exists(name))
    return name;
  std::vector<std::string> names;
  std::error_code error;
  for (sys::fs::directory_iterator each(folder, error), end; each != end && !error; each.increment(error))
    if (StringRef file = sys::path::filename(each->path()); file.consume_back(".json")) {
      if (file == text)
        return each->path();
      names.push_back(file.str());
    }
  llvm::sort(names);
  std::string known = names.empty() ? ", and there are no machines in '" + folder + "'"
                                    : " nor a machine that hyc knows: " + llvm::join(names, ", ");
  return makeError(ExitCode::Usage, "--machine is \"" + name + "\", which is no file" + known +
                                        "; give one of those, or the path of a file");
}

MachineRates hyc::defaultRates(int64_t threads) {
  MachineRates rates;
  double cores = static_cast<double>(threads);
  rates.products *= cores;
  rates.narrowProducts *= cores;
  rates.memory *= cores;
  // Operands are read, written where the product wants them, and read again.
  rates.productMemory = rates.memory / 3;
  return rates;
}
