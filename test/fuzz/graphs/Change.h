// Changes one thing of a model: an attribute, an input of a node, a rank, a type, a size, a value, the operator set.
#ifndef HYC_TEST_FUZZ_GRAPHS_CHANGE_H
#define HYC_TEST_FUZZ_GRAPHS_CHANGE_H

#include "Random.h"
#include "lib/Import/ONNX/onnx_subset.pb.h"

#include <string>

namespace hyc::fuzzing {

/// Says what was changed.
std::string changeOneThing(onnxfile::Model &model, Random &random);

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_GRAPHS_CHANGE_H
