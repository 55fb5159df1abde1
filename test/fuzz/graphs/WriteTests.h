// Graphs as ONNX's node tests are: a model, its inputs, and the outputs that the interpreter computes.
#ifndef HYC_TEST_FUZZ_GRAPHS_WRITETESTS_H
#define HYC_TEST_FUZZ_GRAPHS_WRITETESTS_H

#include "GraphGenerator.h"

namespace hyc::fuzzing {

/// Writes FOLDER/model.onnx and FOLDER/test_data_set_0 of what `graph` computes before its loss, parameters being
/// inputs. Whether that was possible: the model is refused, or the interpreter does not finish, where not.
bool writeTest(const GeneratedGraph &graph, Random &random, const std::string &folder);

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_GRAPHS_WRITETESTS_H
