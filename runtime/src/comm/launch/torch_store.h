// The store that torchrun's agent keeps at MASTER_PORT, as far as leaving a word there and waiting for one needs it.
// Its protocol is no stable interface: it is that of torch 2.15, whose two servers were both tried. Where it is not
// understood, or nobody answers, the store is done without.
//
//   client  VALIDATE (0) u32 0x3C85F7CE; then SET (1) key value; GET (3) key; WAIT (6) u64 keys, key …
//   server  to GET: value; to WAIT, once the key is there: 0. Keys and values: u64 bytes, and the bytes
#ifndef HYCRT_SRC_COMM_LAUNCH_TORCH_STORE_H_
#define HYCRT_SRC_COMM_LAUNCH_TORCH_STORE_H_

#include <cstdint>
#include <string>

#include "base/file.h"
#include "hycrt/status.h"

namespace hycrt {

class TorchStore {
 public:
  // Errors of all three are kUnavailable.
  static Result<TorchStore> open(const std::string& host, int port, int64_t deadlineMs);

  Status set(const std::string& key, const std::string& value);
  // Waits until it is there, or the deadline.
  Result<std::string> get(const std::string& key, int64_t deadlineMs);

  // By which this host has reached it.
  std::string ownAddress() const;

 private:
  explicit TorchStore(FileDescriptor connection) : connection_(std::move(connection)) {}
  Status send(const std::string& bytes);
  Status receive(void* to, size_t bytes, int64_t deadlineMs);

  FileDescriptor connection_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_LAUNCH_TORCH_STORE_H_
