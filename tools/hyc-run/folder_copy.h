// A compiled folder on its way to another host (--copy-out): what is in it, as lines of text, and the side that takes
// it. The other side is in copy_out.h.
//
//   hyc-run folder 1
//   folder /home/user/out
//   file 183256 x 0f3a… bin/stage0        bytes, x: it may be executed, SHA-256, path in the folder
//   go
//
// The receiver answers "has" where all of it is there already, or "wants 0 3 …", which files, by place. Their bytes
// follow, one after the other; when all have come and their sums are right the receiver puts them in place, and says
// "done". The lines without "folder" and "go" are kept beside the files (kCopyLedger): only what they tell of, and is
// unchanged since, is ever replaced. Where that was interrupted there are two lines of a file, of before and after.
#ifndef HYC_RUN_FOLDER_COPY_H_
#define HYC_RUN_FOLDER_COPY_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "hycrt/manifest.h"
#include "hycrt/status.h"

namespace hycrun {

inline constexpr char kReceiveFlag[] = "--receive-folder";
inline constexpr char kCopyLedger[] = ".copied-by-hyc-run";

struct CopiedFile {
  std::string path;  // relative, and inside the folder
  int64_t bytes = 0;
  bool isProgram = false;
  std::string sum;  // hexadecimal
};

struct FolderListing {
  std::string folder;  // absolute
  std::vector<CopiedFile> files;
};

// What hyc-compile has left in the manifest's folder, or as much of it as is still there.
hycrt::Result<FolderListing> listFolder(const hycrt::Manifest& manifest);
std::string encodeListing(const FolderListing& listing);

// Takes a folder from `input`, and answers on `output`.
hycrt::Status receiveFolder(int input, std::FILE* output);

}  // namespace hycrun

#endif  // HYC_RUN_FOLDER_COPY_H_
