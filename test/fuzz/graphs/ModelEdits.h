// What may be taken away from a model and its flags, so that what is left still shows a finding.
#ifndef HYC_TEST_FUZZ_GRAPHS_MODELEDITS_H
#define HYC_TEST_FUZZ_GRAPHS_MODELEDITS_H

#include "GraphGenerator.h"
#include "test/fuzz/trials/Shrink.h"

#include <map>
#include <string>
#include <vector>

namespace hyc::fuzzing {

/// A model under flags of hyc-compile.
struct Specimen {
  onnxfile::Model model;
  std::vector<std::string> flags;
};

/// Types and sizes of what nodes compute, as far as they are known, by name.
using Facts = std::map<std::string, TensorFacts>;

/// Flags; nodes, whose results become inputs or parameters, or are those of the nodes before; attributes; optional
/// inputs; sizes; dimensions; values; what nothing uses. `lookAt` says what it knows of a model's values, and is not
/// asked in the order of the nodes.
std::vector<Edits<Specimen>> specimenEdits(std::function<Facts(const onnxfile::Model &)> lookAt);

/// The facts of the nodes that the importer takes. It may crash on a model: ask it in a child process.
Facts importFacts(const onnxfile::Model &model, int64_t batch, const std::function<void(const std::string &)> &write);
/// What `importFacts` has written.
Facts parseFacts(const std::string &text);

/// A line for each tensor and node.
std::string describeModel(const onnxfile::Model &model);

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_GRAPHS_MODELEDITS_H
