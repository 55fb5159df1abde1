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
static constexpr size_t kMostTiers = 8, kMostPoints = 64;
static constexpr double kMostRate = 1e18, kMostSeconds = 10;
static constexpr int64_t kMostTierRanks = int64_t(1) << 40;

static constexpr MachineKey kKeys[] = {
    {"products", &MachineRates::products, 1, kMostRate, "operations of matrix products a second"},
    {"narrow_products", &MachineRates::narrowProducts, 1, kMostRate, "of those with operands of 16 bits"},
    {"memory", &MachineRates::memory, 1, kMostRate, "bytes a second that kernels read and write"},
    {"link", &MachineRates::link, 1, kMostRate, "bytes a second sent to other ranks"},
    {"latency", &MachineRates::latency, 0, kMostSeconds, "seconds of an exchange, whatever it carries"},
    {"host", &MachineRates::host, 1, kMostRate, "bytes a second between device and host"},
    {"disk", &MachineRates::disk, 1, kMostRate, "bytes a second of the disk"},
    {"launch", &MachineRates::launch, 0, kMostSeconds, "seconds that no kernel is done in"},
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
  if (Error error = from.checkKeys({"name", "ranks", "latency", "rates"}))
    return error;
  if (Error error = from.read("name", tier.name))
    return error;
  if (Error error = from.read("ranks", tier.ranks, 2, kMostTierRanks))
    return error;
  if (Error error = from.read("latency", tier.latency, 0, kMostSeconds))
    return error;
  if (Error error = readPoints(from, "rates", "bytes", "rate", kMostRate, tier.rates))
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

static Error readRates(const JsonObjectReader &root, MachineRates &rates) {
  std::vector<StringRef> keys{"name", "product_share", "tiers", "sources"};
  for (const MachineKey &each : kKeys)
    keys.push_back(each.key);
  if (Error error = root.checkKeys({}, keys))
    return error;
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
  return readTiers(root, rates);
}

Expected<MachineRates> hyc::readMachine(const std::string &path, MachineRates rates) {
  if (Error error = readJsonFile("machine", path, kMaxBytes,
                                 [&](const JsonObjectReader &root) { return readRates(root, rates); }))
    return error;
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
  return rates;
}
