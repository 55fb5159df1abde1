// What torch.save writes: an archive with a pickle and tensors, or a pickle by itself, as a checkpoint's metadata is.
// An archive is sealed, so that its pickle is read although its sum is another.
#include "fuzzing.h"

#include "checkpoint/torch/torch_tensor.h"

#include <cstring>

using namespace hyc::fuzzing;
using hycrt::Pickle;
using hycrt::Result;

namespace {

/// The sums of records, in the directory of an archive as torch.save and hyc write it.
std::string sealed(std::string bytes) {
  for (size_t at = bytes.find("PK\1\2"); at != bytes.npos && at + 46 <= bytes.size();
       at = bytes.find("PK\1\2", at + 4)) {
    uint32_t size, header;
    std::memcpy(&size, &bytes[at + 24], 4);
    std::memcpy(&header, &bytes[at + 42], 4);
    if (header > bytes.size() || bytes.size() - header < 30)
      continue;
    uint16_t name, extra;
    std::memcpy(&name, &bytes[header + 26], 2);
    std::memcpy(&extra, &bytes[header + 28], 2);
    size_t begin = size_t(header) + 30 + name + extra;
    if (begin > bytes.size() || size > bytes.size() - begin)
      continue;
    uint32_t sum = hycrt::zipSum(0, &bytes[begin], size);
    std::memcpy(&bytes[at + 16], &sum, 4);
  }
  return bytes;
}

void check(const hycrt::Status &status) {
  if (status.message().empty() || status.exitCode() != 65)
    found("refused without a word, or for another reason than the file's");
}

void readPickle(std::string bytes) {
  Result<Pickle> pickle = Pickle::parse(std::move(bytes), "file");
  if (!pickle.ok())
    return check(pickle.status());
  Pickle::Value root = pickle->root();
  (void)pickle->find(root, "param");
  (void)hycrt::shapeOf(*pickle, root);
  (void)pickle->nameOf(root);
  (void)pickle->realOf(root);
}

void readArchive(const std::string &path, int64_t size) {
  Result<hycrt::FileDescriptor> file = hycrt::openForReading(path);
  if (!file.ok())
    return found("a file that was written cannot be opened");
  Result<hycrt::TorchFile> archive = hycrt::TorchFile::open(*file, path, 0, size);
  if (!archive.ok())
    return check(archive.status());
  const Pickle &pickle = archive->pickle();
  Result<hycrt::TorchTensor> tensor = archive->tensorOf(pickle.find(pickle.root(), "param").value_or(pickle.root()));
  if (!tensor.ok())
    return check(tensor.status());
  std::vector<std::byte> elements;
  hycrt::Status status = archive->read(*tensor, &elements);
  if (!status.ok())
    return check(status);
  if (int64_t(elements.size()) > size)
    found("a tensor has more bytes than its file");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static InputFile file("tensor.pt");
  std::string bytes(reinterpret_cast<const char *>(data), size);
  if (bytes.compare(0, 2, "PK") != 0) {
    readPickle(bytes);
    return 0;
  }
  bytes = sealed(std::move(bytes));
  readArchive(file.write(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()), int64_t(bytes.size()));
  return 0;
}
