// How positions turn q and k, as a config.json has it: rope_parameters, one for all layers or one for each kind of
// them; older files have rope_theta and rope_scaling.
#include "DecoderFamily.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace hyc;

static constexpr double kMaxFactor = 1e6;

static LogicalResult readKeys(ConfigReader &reader, RopeParameters &rope, double &share) {
  const StringRef types[] = {"default", "linear", "dynamic", "llama3", "yarn", "longrope", "su"};
  return success(
      succeeded(reader.readString("rope_type|type", rope.type, types)) &&
      succeeded(reader.readNumber("rope_theta", rope.theta, false)) &&
      succeeded(reader.readNumber("factor", rope.factor, false)) &&
      succeeded(reader.readNumber("low_freq_factor", rope.lowFactor, false)) &&
      succeeded(reader.readNumber("high_freq_factor", rope.highFactor, false)) &&
      succeeded(reader.readSize("original_max_position_embeddings", rope.firstPositions, 1, kMaxPositions)) &&
      succeeded(reader.readNumber("beta_fast", rope.betaFast, false)) &&
      succeeded(reader.readNumber("beta_slow", rope.betaSlow, false)) &&
      succeeded(reader.readBool("truncate", rope.truncate)) &&
      succeeded(reader.readNumber("attention_factor", rope.attentionFactor, false)) &&
      succeeded(reader.readNumber("mscale", rope.mscale, true)) &&
      succeeded(reader.readNumber("mscale_all_dim", rope.mscaleAllDim, true)) &&
      succeeded(reader.readNumbers("short_factor", rope.shortFactors)) &&
      succeeded(reader.readNumbers("long_factor", rope.longFactors)) &&
      succeeded(reader.readNumber("partial_rotary_factor", share, false)) &&
      succeeded(reader.refuseOthers({"rope_type", "type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor",
                                     "original_max_position_embeddings", "beta_fast", "beta_slow", "truncate",
                                     "attention_factor", "mscale", "mscale_all_dim", "short_factor", "long_factor",
                                     "partial_rotary_factor"})));
}

/// What keys say together, of the object that was entered.
static LogicalResult check(ConfigReader &reader, const DecoderConfig &config, RopeParameters &rope) {
  if (rope.type == "su")
    rope.type = "longrope"; // its first name
  const bool scales = rope.type != "default" && rope.type != "dynamic";
  const bool looksBack = rope.type == "llama3" || rope.type == "yarn" || rope.type == "longrope";
  if (scales && !reader.has("factor") && !(looksBack && rope.type != "llama3" && rope.firstPositions))
    return reader.wrong("factor", "a number above 0 for rope_type \"" + rope.type + "\"");
  if (!(rope.factor <= kMaxFactor))
    return reader.wrong("factor", "a number of at most 1e6");
  if (looksBack && !rope.firstPositions)
    return reader.wrong("original_max_position_embeddings", "an integer for rope_type \"" + rope.type + "\"");
  if (rope.type == "llama3" && !(rope.lowFactor < rope.highFactor))
    return reader.wrong("high_freq_factor", "a number above \"low_freq_factor\"");
  if (looksBack && rope.type != "llama3" && !reader.has("factor"))
    rope.factor = static_cast<double>(config.positions) / static_cast<double>(rope.firstPositions);
  return success();
}

/// Of the object at the key.
static LogicalResult readObject(ConfigReader &reader, const DecoderConfig &config, int64_t firstPositions,
                                RopeParameters &rope, double &share) {
  if (failed(readKeys(reader, rope, share)))
    return failure();
  if (firstPositions)
    rope.firstPositions = firstPositions;
  return check(reader, config, rope);
}

/// How many elements are turned is a matter of the whole config.
static LogicalResult checkLists(ConfigReader &reader, const DecoderConfig &config) {
  if (config.rope.type != "longrope")
    return success();
  const auto pairs = static_cast<size_t>(config.rotarySize / 2);
  for (auto [key, list] :
       {std::pair("short_factor", &config.rope.shortFactors), std::pair("long_factor", &config.rope.longFactors)})
    if (list->size() != pairs)
      return reader.error() << "\"rope_parameters\" has " << list->size() << " numbers in \"" << key << "\", expected "
                            << pairs << ", half of the elements of a head that are turned";
  return success();
}

/// At the key that decides how many elements of a head are turned, where the file has one.
static LogicalResult refuseSize(ConfigReader &reader, const DecoderConfig &config) {
  const DecoderKeys &keys = config.family->keys;
  const std::string turned = std::to_string(config.rotarySize) + " of the " + std::to_string(config.headSize);
  for (StringRef key : {StringRef("rotary_dim"), StringRef("qk_rope_head_dim"), keys.rotaryShare, keys.headSize})
    if (!key.empty() && reader.has(key))
      return reader.wrong(key, "one by which an even number of a head's elements is turned, not " + turned +
                                   ", since pairs are");
  return reader.error() << "turns " << turned
                        << " elements of a head, expected an even number, since pairs are turned: see \"head_dim\" and "
                           "\"partial_rotary_factor\"";
}

static LogicalResult readParameters(ConfigReader &reader, DecoderConfig &config, int64_t firstPositions) {
  StringRef key = reader.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!reader.has(key))
    return success();
  if (config.family->windowTheta && reader.isNested(key)) {
    reader.enter(key);
    for (auto [kind, rope] :
         {std::pair("full_attention", &config.rope), std::pair("sliding_attention", &config.windowRope)})
      if (reader.enter(kind)) {
        if (failed(readObject(reader, config, firstPositions, *rope, config.rotaryShare)))
          return failure();
        reader.leave();
      }
    LogicalResult known = reader.refuseOthers({"full_attention", "sliding_attention"});
    reader.leave();
    return known;
  }
  if (!reader.enter(key))
    return reader.wrong(key, "an object");
  LogicalResult read = readObject(reader, config, firstPositions, config.rope, config.rotaryShare);
  if (succeeded(read))
    reader.leave();
  return read;
}

LogicalResult hyc::readRope(ConfigReader &reader, DecoderConfig &config) {
  const DecoderFamily &family = *config.family;
  int64_t firstPositions = family.firstPositions;
  config.rotaryShare = family.rotaryShare;
  config.rope.theta = family.theta;
  config.windowRope.theta = family.windowTheta;
  if (failed(reader.readNumber(family.keys.theta, config.rope.theta, false)) ||
      failed(reader.readNumber(family.keys.windowTheta, config.windowRope.theta, false)) ||
      failed(reader.readNumber(family.keys.rotaryShare, config.rotaryShare, false)) ||
      failed(reader.readSize("original_max_position_embeddings", firstPositions, 1, kMaxPositions)) ||
      failed(readParameters(reader, config, firstPositions)))
    return failure();
  if (!(config.rotaryShare <= 1)) {
    std::string share;
    llvm::raw_string_ostream(share) << llvm::format("%g", config.rotaryShare);
    return reader.error() << "\"partial_rotary_factor\" is " << share << ", expected at most 1";
  }
  if (!config.rotarySize)
    config.rotarySize = static_cast<int64_t>(static_cast<double>(config.headSize) * config.rotaryShare);
  if (config.rotarySize < 2 || config.rotarySize % 2 != 0 || config.rotarySize > config.headSize)
    return refuseSize(reader, config);
  return checkLists(reader, config);
}
