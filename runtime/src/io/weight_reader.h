// WeightReader: the first values of states that start from the model's files, read by all of the rank's threads at
// once.
//
// A state's elements are cut into pieces of a few megabytes, which threads take in order: one thread alone does not
// reach what the page cache or a disk gives. Of a shard with short runs (a split of the last dimension) many are
// fetched by one call, what lies between them with them: a call costs more than to copy a kilobyte.
#ifndef HYCRT_SRC_IO_WEIGHT_READER_H_
#define HYCRT_SRC_IO_WEIGHT_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "hycrt/program.h"
#include "hycrt/status.h"
#include "io/state_layout.h"
#include "io/state_window.h"

namespace hycrt {

class WeightReader {
 public:
  // `modelFiles` are named by Initializer::file, and outlive the reader.
  explicit WeightReader(const std::vector<std::string>& modelFiles) : paths_(modelFiles), files_(modelFiles.size()) {}

  // Has `window` of a state filled by the next `read`; state, layout and memory must last until then. A file that
  // cannot be opened, or is too short for the tensor, is an error here.
  Status add(const StateDesc& state, const ShardLayout& layout, const StateWindow& window);

  // Reads what was added. Of several failures the first in the order of `add` is returned.
  Status read();

 private:
  struct OpenFile {
    FileDescriptor file;
    int64_t bytes = 0;
  };
  struct Piece {
    const StateDesc* state;
    const ShardLayout* layout;
    StateWindow window;
  };
  struct Source {
    const FileDescriptor& file;
    const std::string& path;
    int64_t begin;         // of the tensor's bytes
    int64_t elementBytes;  // as the file has them
  };

  Status open(int index);
  Status readPiece(const Piece& piece, std::vector<std::byte>* staging) const;
  // The piece's elements as the file has them, each at its place in the window.
  static Status readRuns(const Piece& piece, const Source& source, std::byte* to);

  const std::vector<std::string>& paths_;
  std::vector<OpenFile> files_;
  std::vector<Piece> pieces_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_WEIGHT_READER_H_
