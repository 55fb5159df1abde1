// safetensors: the compiler's reader and the runtime's. What both accept they must understand alike.
#include "fuzzing.h"

#include "hyc/Support/SafeTensors.h"
#include "hycrt/safetensors.h"

using namespace hyc;
using namespace hyc::fuzzing;

/// The runtime knows fewer types, so that it may refuse what the compiler accepts.
static void compare(llvm::ArrayRef<SafeTensor> compiled, const hycrt::TensorDirectory &run, uint64_t fileBytes) {
  if (compiled.size() != run.size())
    found("one reader sees more tensors than the other");
  for (const SafeTensor &tensor : compiled) {
    auto other = run.find(tensor.name);
    if (other == run.end())
      found("a tensor has two names");
    const hycrt::TensorEntry &entry = other->second;
    if (entry.begin != tensor.offset || entry.bytes != tensor.bytes ||
        llvm::ArrayRef(entry.shape) != llvm::ArrayRef(tensor.shape))
      found("a tensor lies in two places");
    if (tensor.offset < 0 || tensor.bytes < 0 || uint64_t(tensor.offset) + uint64_t(tensor.bytes) > fileBytes)
      found("a tensor lies outside of the file");
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static InputFile file("model.safetensors");
  const std::string &path = file.write(data, size);
  llvm::Expected<std::vector<SafeTensor>> compiled = readSafeTensorsHeader(path);
  hycrt::Result<hycrt::TensorDirectory> run = hycrt::readSafetensorsDirectory(path);
  if (!compiled) {
    if (llvm::toString(compiled.takeError()).empty())
      found("refused without a word");
    if (run.ok())
      found("the runtime accepts what the compiler refuses");
    return 0;
  }
  if (run.ok())
    compare(*compiled, *run, size);
  return 0;
}
