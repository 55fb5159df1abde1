// One archive of torch.export: data, a parameter, one operator of a recipe, and a loss.
#ifndef HYC_TEST_FUZZ_ARCHIVES_ARCHIVEDRAFT_H
#define HYC_TEST_FUZZ_ARCHIVES_ARCHIVEDRAFT_H

#include "ArchiveRecipes.h"
#include "test/fuzz/graphs/Random.h"
#include "test/fuzz/zip_mutation.h"
#include "llvm/Support/JSON.h"

#include <map>

namespace hyc::fuzzing {

class ArchiveDraft {
public:
  ArchiveDraft(const ArchiveRecipe &recipe, Random &random);

  /// Says what sizes the operator's results have.
  void setResultSizes(const std::vector<int64_t> &sizes);
  const std::vector<int64_t> &firstSizes() const { return first; }
  /// The records, with models/model.json as `print` prints it.
  ZipRecords records(const std::string &model) const;
  llvm::json::Value model() const;
  /// The operator's arguments, for whoever changes them.
  llvm::json::Object &operatorNode() { return *nodes[operatorAt].getAsObject(); }

private:
  std::vector<int64_t> shapeOf(llvm::StringRef list);
  std::string addStored(const std::string &name, char type, const std::vector<int64_t> &shape, bool isParameter,
                        int64_t least, int64_t most);
  std::string addInput(const std::string &name, char type, const std::vector<int64_t> &shape);
  std::string addTensor(char type, const std::vector<int64_t> &shape, int64_t least, int64_t most);
  llvm::json::Value argumentOf(llvm::StringRef kind);
  void addNode(const std::string &target, llvm::json::Array arguments, llvm::json::Array outputs);
  void addOperator(const ArchiveRecipe &recipe);
  void addLoss(const ArchiveRecipe &recipe);
  std::string newName() { return "v" + std::to_string(made++); }

  Random &random;
  std::map<char, int64_t> sizes{{'n', 4}};
  std::vector<int64_t> first; ///< of the data
  std::string hidden;         ///< the data times a parameter
  llvm::json::Array inputs, nodes, inputSpecs;
  llvm::json::Object values, symbols, truths, weights;
  ZipRecords stored;
  std::vector<std::string> results;
  size_t operatorAt = 0;
  int made = 0;
};

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_ARCHIVES_ARCHIVEDRAFT_H
