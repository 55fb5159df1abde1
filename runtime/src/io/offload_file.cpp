// Making the file of a rank.
#include "io/offload_file.h"

namespace hycrt {

Result<std::unique_ptr<BlockFile>> openOffloadFile(const Program& program, int rank, const std::string& folder) {
  for (const ArenaDesc& arena : program.arenas) {
    if (arena.sharing != Sharing::kFile) continue;
    if (folder.empty()) {
      return usageError("the plan keeps " + std::to_string(arena.bytes) +
                        " bytes a rank on a disk; say where with --nvme-path DIR");
    }
    BlockFileOptions options;
    options.folder = folder;
    options.rank = rank;
    options.bytes = arena.bytes;
    return BlockFile::create(options);
  }
  return std::unique_ptr<BlockFile>();
}

}  // namespace hycrt
