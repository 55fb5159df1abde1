// The rules, one function each. Powers are taken in f64 and rounded once, which is what a good f32 function gives.
#include "hyc/Import/HuggingFace/RopeParameters.h"

#include <algorithm>
#include <cmath>

using namespace hyc;

static constexpr double kTurn = 2 * M_PI;

/// theta^(2i/size)
static std::vector<float> powersOf(double theta, int64_t size) {
  std::vector<float> powers;
  for (int64_t i = 0; i < size; i += 2) {
    float exponent = static_cast<float>(i) / static_cast<float>(size);
    powers.push_back(static_cast<float>(std::pow(theta, static_cast<double>(exponent))));
  }
  return powers;
}

static void scaleByWavelength(const RopeParameters &p, std::vector<float> &frequencies) {
  const float factor = static_cast<float>(p.factor), low = static_cast<float>(p.lowFactor),
              first = static_cast<float>(p.firstPositions);
  const double longest = static_cast<double>(p.firstPositions) / p.lowFactor,
               shortest = static_cast<double>(p.firstPositions) / p.highFactor;
  for (float &frequency : frequencies) {
    const float wavelength = static_cast<float>(kTurn) / frequency;
    if (wavelength > static_cast<float>(longest)) {
      frequency = frequency / factor;
    } else if (!(wavelength < static_cast<float>(shortest))) {
      const float share = (first / wavelength - low) / static_cast<float>(p.highFactor - p.lowFactor);
      frequency = (1.0f - share) * frequency / factor + share * frequency;
    }
  }
}

/// The dimension whose pair turns `turns` times over the positions of the first training.
static double dimensionOf(const RopeParameters &p, double turns, int64_t size) {
  return static_cast<double>(size) * std::log(static_cast<double>(p.firstPositions) / (turns * kTurn)) /
         (2 * std::log(p.theta));
}

static double lengthFactor(double factor, double weight) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

static RopeFrequencies scaleByRamp(const RopeParameters &p, int64_t size) {
  double low = dimensionOf(p, p.betaFast, size), high = dimensionOf(p, p.betaSlow, size);
  if (p.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(size - 1));
  if (low == high)
    high += 0.001; // a step, not a division by 0
  RopeFrequencies result;
  std::vector<float> powers = powersOf(p.theta, size);
  for (size_t i = 0; i < powers.size(); ++i) {
    float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    float interpolated = 1.0f / (static_cast<float>(p.factor) * powers[i]), own = 1.0f / powers[i];
    result.frequencies.push_back(interpolated * (1.0f - kept) + own * kept);
  }
  if (p.attentionFactor > 0)
    result.factor = p.attentionFactor;
  else if (p.mscale > 0 && p.mscaleAllDim > 0)
    result.factor = lengthFactor(p.factor, p.mscale) / lengthFactor(p.factor, p.mscaleAllDim);
  else
    result.factor = lengthFactor(p.factor, 1);
  return result;
}

static RopeFrequencies scaleEach(const RopeParameters &p, int64_t size, int64_t sequence) {
  RopeFrequencies result;
  const std::vector<double> &factors = sequence > p.firstPositions ? p.longFactors : p.shortFactors;
  std::vector<float> powers = powersOf(p.theta, size);
  for (size_t i = 0; i < powers.size(); ++i)
    result.frequencies.push_back(1.0f / (static_cast<float>(factors[i]) * powers[i]));
  if (p.attentionFactor > 0)
    result.factor = p.attentionFactor;
  else if (p.factor > 1)
    result.factor = std::sqrt(1 + std::log(p.factor) / std::log(static_cast<double>(p.firstPositions)));
  return result;
}

double hyc::scoreFactorOf(const RopeParameters &parameters) {
  if (parameters.type == "default" || parameters.mscaleAllDim == 0)
    return 1;
  const double factor = lengthFactor(parameters.factor, parameters.mscaleAllDim);
  return factor * factor;
}

RopeFrequencies hyc::computeFrequencies(const RopeParameters &parameters, int64_t size, int64_t sequence) {
  if (parameters.type == "yarn")
    return scaleByRamp(parameters, size);
  if (parameters.type == "longrope")
    return scaleEach(parameters, size, sequence);
  RopeFrequencies result;
  for (float power : powersOf(parameters.theta, size))
    result.frequencies.push_back(1.0f / power);
  if (parameters.type == "linear")
    for (float &frequency : result.frequencies)
      frequency = frequency / static_cast<float>(parameters.factor);
  if (parameters.type == "llama3")
    scaleByWavelength(parameters, result.frequencies);
  return result;
}
