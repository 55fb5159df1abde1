// One JSON object.
#include "hycrt/error_file.h"

#include <fcntl.h>
#include <time.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "base/launchers.h"
#include "hycrt/printable.h"

namespace hycrt {

// The agent takes the earliest of several for the cause, by whole seconds: who has only lost a peer comes later.
static std::string timestampOf(const Status& failure) {
  return std::to_string(time(nullptr) + (failure.code() == StatusCode::kPeerLost ? 1 : 0));
}

void writeErrorFile(const Status& failure) {
  const std::string path = variable("TORCHELASTIC_ERROR_FILE");
  const std::string rank = variable("RANK");
  if (path.empty()) return;
  const std::string message = "rank " + (rank.empty() ? "0" : printable(rank)) + ": " + printable(failure.message());
  nlohmann::ordered_json file;
  file["message"]["message"] = message;
  file["message"]["extraInfo"]["py_callstack"] = message + "\n(status " + std::to_string(failure.exitCode()) + ")";
  file["message"]["extraInfo"]["timestamp"] = timestampOf(failure);
  const std::string text = file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const FileDescriptor to(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  Status status = to.isOpen() ? writeAt(to, path, text.data(), static_cast<int64_t>(text.size()), 0)
                              : errnoError("cannot make '" + path + "'", errno);
  if (status.ok()) return;
  std::fprintf(stderr, "warning: torchrun will not be told why (TORCHELASTIC_ERROR_FILE): %s\n",
               printable(status.message()).c_str());
}

}  // namespace hycrt
