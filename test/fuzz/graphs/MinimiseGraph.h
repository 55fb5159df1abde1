// A finding made small: a folder with model.onnx and flags gets a folder `minimised` with less of both.
#ifndef HYC_TEST_FUZZ_GRAPHS_MINIMISEGRAPH_H
#define HYC_TEST_FUZZ_GRAPHS_MINIMISEGRAPH_H

#include "test/fuzz/trials/Supervisor.h"

#include <string>

namespace hyc::fuzzing {

/// What `found` has, through the compiler, until nothing more can be left out; `pattern` as for lookFor. False, with a
/// line on standard error, where the folder shows no finding (any more).
bool minimiseGraph(const Supervision &options, const std::string &found, const std::string &pattern);

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_GRAPHS_MINIMISEGRAPH_H
