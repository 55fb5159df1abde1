// SecureStream: bytes over a connection, both ways and without waiting; by TLS 1.3 with a key that both ends have
// beforehand, or in the clear. There are no certificates, tickets or early data, and every connection makes fresh keys
// by Diffie-Hellman: who learns the token later cannot read what was said before. Not thread-safe.
#ifndef HYCRT_SRC_COMM_TCP_SECURE_STREAM_H_
#define HYCRT_SRC_COMM_TCP_SECURE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"
#include "hycrt/status.h"

namespace hycrt {

// Whether this runtime was built with OpenSSL's TLS.
bool canEncrypt();

// What a key is for; no two connections of a job have the same.
struct KeyPurpose {
  std::string job;               // its name and attempt
  std::string role;              // "meeting", "exchanges"
  int caller = 0, listener = 0;  // ranks
  int lane = 0;
};

class SecureStream {
 public:
  enum class Side { kCaller, kListener };

  SecureStream();
  SecureStream(SecureStream&&) noexcept;
  SecureStream& operator=(SecureStream&&) noexcept;
  ~SecureStream();

  static SecureStream inTheClear(FileDescriptor connection);
  // The key comes by HKDF from the token and the purpose.
  static SecureStream encrypted(FileDescriptor connection, Side side, const std::string& token,
                                const KeyPurpose& purpose);

  const FileDescriptor& connection() const { return connection_; }
  bool isInTheClear() const { return !tls_; }

  // Both ends show that they have the key, as far as that goes without waiting; kDone in the clear.
  enum class Shaking { kDone, kWantsRead, kWantsWrite, kFailed };
  Shaking shake();
  // The same to its end, which is waited for until the deadline.
  Status shakeHands(int64_t deadlineMs);

  // How many bytes went; 0: none can now. -1: the connection is over, for the reason that failure() tells.
  int64_t read(void* to, int64_t bytes);
  // So many bytes are still to come, and whoever waits for the connection need not be woken by fewer. Where read() had
  // none, or fewer than it was asked for in the clear.
  void wakeAt(int64_t bytes);
  // `goesOn`: more follows at once, with which these may wait.
  int64_t write(const void* from, int64_t bytes, bool goesOn = false);
  // Of what was written some may still be here: sends what goes; false: the connection is over.
  bool flush();
  bool hasFlushed() const;
  // "" where the other side closed it in order.
  const std::string& failure() const { return failure_; }
  // What it has taken of memory.
  int64_t bufferBytes() const;
  // Tells the other side that nothing more comes.
  void endWriting();

 private:
  int64_t readSecretly(void* to, int64_t bytes);
  int64_t writeSecretly(const void* from, int64_t bytes, bool goesOn);
  int64_t afterTls();
  int64_t over(const char* why);

  struct Tls;
  FileDescriptor connection_;
  std::unique_ptr<Tls> tls_;
  std::string failure_;
  int wakesAt_ = 1;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_TCP_SECURE_STREAM_H_
