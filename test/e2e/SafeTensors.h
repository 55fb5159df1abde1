// SafeTensors: the f32 and i32 tensors of a safetensors file, for comparisons. Written apart from the runtime's own
// reader and writer, so that it can check them.
#ifndef HYC_TEST_E2E_SAFETENSORS_H
#define HYC_TEST_E2E_SAFETENSORS_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hyc_e2e {

struct HostTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

/// Every F32, F64, I32 and I64 tensor of `path`, by name. Throws std::runtime_error with the reason.
std::map<std::string, HostTensor> readSafeTensors(const std::string &path);

/// A tensor to be written, of the type "F32", "I32" or "I64".
struct TypedTensor {
  std::string name, dtype;
  HostTensor tensor;
};

/// Writes `tensors` to `path`; returns it. Throws std::runtime_error where it cannot.
std::string writeSafeTensors(const std::string &path, const std::vector<TypedTensor> &tensors);

/// The batches of images and labels of a reference file, as one file of samples: their first two dimensions are one.
std::string writeImageSamples(const std::string &reference, const std::string &path);

/// max |a - b| over max |b|.
double relativeDifference(const HostTensor &a, const HostTensor &b);

} // namespace hyc_e2e

#endif // HYC_TEST_E2E_SAFETENSORS_H
