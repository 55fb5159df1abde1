// Rotary frequencies from a config.json's rope_parameters (rope_theta and rope_scaling in older ones), by the rules
// that transformers names default, linear, dynamic, llama3, yarn and longrope.
#ifndef HYC_IMPORT_HUGGINGFACE_ROPEPARAMETERS_H
#define HYC_IMPORT_HUGGINGFACE_ROPEPARAMETERS_H

#include <cstdint>
#include <string>
#include <vector>

namespace hyc {

struct RopeParameters {
  std::string type = "default";
  double theta = 10000;                 ///< rope_theta
  double factor = 1;                    ///< by how much longer sequences are than those of the first training
  double lowFactor = 1, highFactor = 4; ///< llama3: low_freq_factor, high_freq_factor
  int64_t firstPositions = 0;           ///< original_max_position_embeddings
  double betaFast = 32, betaSlow = 1;   ///< yarn: turns over firstPositions from which on nothing, or all, is scaled
  bool truncate = true;                 ///< yarn: bounds are whole dimensions
  double attentionFactor = 0;           ///< yarn, longrope: 0 where it follows from the factor
  double mscale = 0, mscaleAllDim = 0;  ///< yarn: 0 where not given
  std::vector<double> shortFactors, longFactors; ///< longrope: one a frequency, by whether a sequence is longer than
                                                 ///< firstPositions
};

struct RopeFrequencies {
  std::vector<float> frequencies; ///< one a pair of elements of a head
  double factor = 1;              ///< of cosines and sines
};

/// Computed in f32 where transformers does. `size`: elements of a head that are turned, even; `sequence`: how long
/// samples are.
///   default  theta^(-2i/size);  dynamic is the same for sequences of at most the model's positions
///   linear   divided by the factor
///   llama3   (Grattafiori et al. 2024) divided where wavelengths are long, interpolated where they are between
///   yarn     (Peng et al. 2023) the same by a ramp over the dimensions, and a factor for the tables
///   longrope (Ding et al. 2024) each divided by a factor of its own, and a factor for the tables
RopeFrequencies computeFrequencies(const RopeParameters &parameters, int64_t size, int64_t sequence);

/// What yarn's mscale_all_dim multiplies attention's scores by, where a model heeds it.
double scoreFactorOf(const RopeParameters &parameters);

} // namespace hyc

#endif // HYC_IMPORT_HUGGINGFACE_ROPEPARAMETERS_H
