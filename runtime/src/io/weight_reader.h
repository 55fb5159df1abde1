// WeightReader: the first values of states that start from the model's files, read by all of the rank's threads at
// once, and compared with what the files held when the model was compiled.
//
// The unit is a file's chunk, of which there is a sum: threads take those that the rank needs anything of in the order
// of the file, each once. What is read is what was summed: a chunk that one run fills is read into its place, any other
// aside, from where its elements are taken. An element that two chunks share (tensors of an .onnx lie anywhere) is put
// together at the end.
#ifndef HYCRT_SRC_IO_WEIGHT_READER_H_
#define HYCRT_SRC_IO_WEIGHT_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/function_ref.h"
#include "hycrt/file_sums.h"
#include "hycrt/program.h"
#include "hycrt/status.h"
#include "io/state_layout.h"
#include "io/state_window.h"

namespace hycrt {

class WeightReader {
 public:
  // `modelFiles` are named by Initializer::file, and outlive the reader.
  explicit WeightReader(const std::vector<ModelFile>& modelFiles) : models_(modelFiles), files_(modelFiles.size()) {}

  // Has `window` of a state filled by the next `read`; state, layout and memory must last until then. A file that
  // cannot be opened, is not the one that was compiled against, or is too short for the tensor, is an error here.
  Status add(const StateDesc& state, const ShardLayout& layout, const StateWindow& window);

  // The same for values that go to `take` and into no memory, as f32: `perElement` of them for each of the state's
  // elements. It is called by several threads at once, for runs of elements in any order. The state is of no type then:
  // `state.init` alone says what its values are.
  using Take = FunctionRef<void(const ElementRun&, const float*)>;
  Status add(const StateDesc& state, const ShardLayout& layout, const StateWindow& window, int64_t perElement,
             const Take& take);

  // Reads what was added. Of several failures the first in the order of files and their bytes is returned.
  Status read();

 private:
  struct OpenFile {
    FileDescriptor file;
    int64_t bytes = 0;
  };
  // Elements that are wanted of one tensor of a file, which has some of the state's, or all.
  struct Want {
    const StateDesc* state;
    const ShardLayout* layout;
    StateWindow window;
    FilePlace place;
    int64_t elementBytes;  // as the file has them
    int64_t first;         // element of the whole state that is the first wanted
    int64_t placeFirst;    // elements of the whole state that the place has, from the first
    int64_t placeEnd;
    int64_t perElement;  // values
    const Take* take;    // null: they go into the window

    // Where the state's first element would lie, if what is before the place lay before it. Maybe before the file.
    int64_t begin() const { return place.offset - placeFirst * elementBytes; }
    // The part of a run that is in the window and in the place.
    std::optional<ElementRun> clip(const ElementRun& run) const;
  };
  struct Bytes {
    int64_t begin, end;  // of a file
  };
  // One chunk for one want.
  struct Use {
    int file;
    int64_t chunk;
    size_t want;
  };
  // One chunk, for uses [first, last), and its first and last bytes for elements that it shares with its neighbours.
  struct Unit {
    size_t first, last;
    std::array<std::byte, 16> head, tail;
  };

  Status addWants(const StateDesc& state, const ShardLayout& layout, const StateWindow& window, int64_t perElement,
                  const Take* take);
  Status checkPlace(const StateDesc& state, const FilePlace& place) const;
  void give(const Want& want, const ElementRun& run, const std::byte* from) const;
  Status open(int index);
  Status checkHeader(int index) const;
  Bytes bytesOf(const Use& use) const;
  void findUses(size_t want, std::vector<Use>* uses) const;
  Status readUnit(Unit& unit, std::vector<std::byte>* staging) const;
  // Where the chunk goes as it is; null where it has to be taken apart.
  std::byte* directPlace(const Unit& unit, const Bytes& bytes) const;
  Status readChecked(const Use& use, const Bytes& bytes, std::byte* to) const;
  void takeElements(const Use& use, const Bytes& bytes, const std::byte* from) const;
  void joinShared(size_t unit) const;
  void put(const Want& want, const ElementRun& run, const std::byte* from) const;

  const std::vector<ModelFile>& models_;
  std::vector<OpenFile> files_;
  std::vector<Want> wants_;
  std::vector<Use> uses_;
  std::vector<Unit> units_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_WEIGHT_READER_H_
