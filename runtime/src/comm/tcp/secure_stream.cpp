// TLS by OpenSSL over a socket that never blocks.
#include "comm/tcp/secure_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/secret.h"
#include "comm/shm/sockets.h"

#ifdef HYCRT_HAS_OPENSSL
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>
#endif

namespace hycrt {
namespace {

constexpr int64_t kMostAtOnce = int64_t{1} << 20;
constexpr int64_t kMostOfRecord = int64_t{32} << 10;  // TLS allows half of it

bool wouldBlock(int error) { return error == EAGAIN || error == EINTR; }

// In the clear, with errno where it fails.
int64_t receive(int connection, void* to, int64_t bytes) { return recv(connection, to, static_cast<size_t>(bytes), 0); }
int64_t sendSome(int connection, const void* from, int64_t bytes, bool goesOn = false) {
  return send(connection, from, static_cast<size_t>(std::min(bytes, kMostAtOnce)),
              MSG_NOSIGNAL | (goesOn ? MSG_MORE : 0));
}

}  // namespace

#ifdef HYCRT_HAS_OPENSSL

namespace {

constexpr char kIdentity[] = "hyc";
constexpr size_t kMostRecordBytes = size_t{256} << 10;
constexpr size_t kReadAhead = size_t{128} << 10, kWriteBuffer = size_t{17} << 10;  // OpenSSL's own
constexpr unsigned char kCipher[] = {0x13, 0x01};                                  // TLS_AES_128_GCM_SHA256

// What fails here is memory, or a library that is broken.
template <typename T>
T* made(T* pointer) {
  if (!pointer) std::abort();
  return pointer;
}

std::string infoOf(const KeyPurpose& purpose) {
  return "hyc tls 1\n" + purpose.job + "\n" + purpose.role + "\n" + std::to_string(purpose.caller) + " to " +
         std::to_string(purpose.listener) + ", " + std::to_string(purpose.lane);
}

Digest deriveKey(const std::string& token, const KeyPurpose& purpose) {
  Digest key{};
  EVP_KDF* const kdf = made(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  EVP_KDF_CTX* const context = made(EVP_KDF_CTX_new(kdf));
  std::string secret = token, info = infoOf(purpose), hash = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, hash.data(), 0),
                                   OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
                                   OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
                                   OSSL_PARAM_construct_end()};
  if (EVP_KDF_derive(context, key.data(), key.size(), parameters) != 1) std::abort();
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(kdf);
  OPENSSL_cleanse(secret.data(), secret.size());
  return key;
}

// What OpenSSL writes, a record of 16 KiB at a time, goes to the socket in longer pieces; OpenSSL's own sockets would
// also end the process by SIGPIPE.
struct Socket {
  int descriptor = -1;
  std::vector<char> records;  // not sent yet; it keeps its capacity
  size_t sent = 0;            // of them

  // False: the connection is over.
  bool flush() {
    while (sent < records.size()) {
      const int64_t count = sendSome(descriptor, records.data() + sent, static_cast<int64_t>(records.size() - sent));
      if (count < 0) return wouldBlock(errno);
      sent += static_cast<size_t>(count);
    }
    records.clear();
    sent = 0;
    return true;
  }
  int64_t write(const char* from, int bytes) {
    if (records.size() >= kMostRecordBytes) {
      if (!flush()) return -1;
      if (!records.empty()) {
        errno = EAGAIN;
        return -1;
      }
    }
    records.insert(records.end(), from, from + bytes);
    return bytes;
  }
};

Socket& socketOf(BIO* bio) { return *static_cast<Socket*>(BIO_get_data(bio)); }

int moveBytes(BIO* bio, int64_t count, int flag) {
  BIO_clear_retry_flags(bio);
  if (count < 0 && wouldBlock(errno)) BIO_set_flags(bio, flag | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(count);
}

BIO_METHOD* methodOfProcess() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* one = made(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "hyc socket"));
    BIO_meth_set_read(one, [](BIO* bio, char* to, int bytes) {
      return moveBytes(bio, receive(socketOf(bio).descriptor, to, bytes), BIO_FLAGS_READ);
    });
    BIO_meth_set_write(one, [](BIO* bio, const char* from, int bytes) {
      return moveBytes(bio, socketOf(bio).write(from, bytes), BIO_FLAGS_WRITE);
    });
    BIO_meth_set_ctrl(one, [](BIO* bio, int command, long, void*) -> long {
      return command == BIO_CTRL_FLUSH && socketOf(bio).flush() ? 1 : 0;
    });
    return one;
  }();
  return method;
}

// One for all connections of the process.
SSL_CTX* contextOfProcess() {
  static SSL_CTX* const context = [] {
    SSL_CTX* one = made(SSL_CTX_new(TLS_method()));
    if (SSL_CTX_set_min_proto_version(one, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(one, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(one, "TLS_AES_128_GCM_SHA256") != 1 || SSL_CTX_set_num_tickets(one, 0) != 1 ||
        SSL_CTX_set_max_early_data(one, 0) != 1) {
      std::abort();
    }
    SSL_CTX_set_options(one, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(one, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(one, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(one, 1);
    SSL_CTX_set_default_read_buffer_len(one, kReadAhead);
    return one;
  }();
  return context;
}

}  // namespace

struct SecureStream::Tls {
  SSL* ssl = nullptr;
  Digest key{};
  Socket socket;

  ~Tls() {
    SSL_free(ssl);
    OPENSSL_cleanse(key.data(), key.size());
  }

  SSL_SESSION* makeSession() const {
    SSL_SESSION* const session = made(SSL_SESSION_new());
    const SSL_CIPHER* const cipher = made(SSL_CIPHER_find(ssl, kCipher));
    if (SSL_SESSION_set1_master_key(session, key.data(), key.size()) != 1 ||
        SSL_SESSION_set_cipher(session, cipher) != 1 ||
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
      std::abort();
    }
    return session;
  }
  static int useSession(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* bytes, SSL_SESSION** session) {
    *id = reinterpret_cast<const unsigned char*>(kIdentity);
    *bytes = sizeof kIdentity - 1;
    *session = static_cast<Tls*>(SSL_get_app_data(ssl))->makeSession();
    return 1;
  }
  static int findSession(SSL* ssl, const unsigned char* id, size_t bytes, SSL_SESSION** session) {
    *session = nullptr;
    if (bytes == sizeof kIdentity - 1 && std::memcmp(id, kIdentity, bytes) == 0) {
      *session = static_cast<Tls*>(SSL_get_app_data(ssl))->makeSession();
    }
    return 1;
  }
};

bool canEncrypt() { return true; }

SecureStream SecureStream::encrypted(FileDescriptor connection, Side side, const std::string& token,
                                     const KeyPurpose& purpose) {
  SecureStream stream;
  stream.connection_ = std::move(connection);
  stream.tls_ = std::make_unique<Tls>();
  Tls& tls = *stream.tls_;
  tls.key = deriveKey(token, purpose);
  tls.ssl = made(SSL_new(contextOfProcess()));
  SSL_set_app_data(tls.ssl, &tls);
  BIO* const bio = made(BIO_new(methodOfProcess()));
  tls.socket.descriptor = stream.connection_.get();
  BIO_set_data(bio, &tls.socket);
  BIO_set_init(bio, 1);
  SSL_set_bio(tls.ssl, bio, bio);
  if (side == Side::kCaller) {
    SSL_set_psk_use_session_callback(tls.ssl, Tls::useSession);
    SSL_set_connect_state(tls.ssl);
  } else {
    SSL_set_psk_find_session_callback(tls.ssl, Tls::findSession);
    SSL_set_accept_state(tls.ssl);
  }
  return stream;
}

SecureStream::Shaking SecureStream::shake() {
  if (!tls_) return Shaking::kDone;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(tls_->ssl);
  if (result != 1) {
    const int error = SSL_get_error(tls_->ssl, result);
    if (error == SSL_ERROR_WANT_READ) return Shaking::kWantsRead;
    if (error == SSL_ERROR_WANT_WRITE) return Shaking::kWantsWrite;
    (void)afterTls();
    return Shaking::kFailed;
  }
  // There is no other way in, and yet: a session that was not begun by the key is none of ours.
  if (SSL_session_reused(tls_->ssl) == 1 && SSL_version(tls_->ssl) == TLS1_3_VERSION) return Shaking::kDone;
  (void)over("it did not take the job's key");
  return Shaking::kFailed;
}

int64_t SecureStream::readSecretly(void* to, int64_t bytes) {
  ERR_clear_error();
  errno = 0;
  size_t count = 0;
  if (SSL_read_ex(tls_->ssl, to, static_cast<size_t>(bytes), &count) == 1) return static_cast<int64_t>(count);
  return afterTls();
}

int64_t SecureStream::writeSecretly(const void* from, int64_t bytes, bool goesOn) {
  const char* const text = static_cast<const char*>(from);
  const size_t most = static_cast<size_t>(std::min(bytes, kMostAtOnce));
  size_t written = 0;
  while (written < most) {
    ERR_clear_error();
    errno = 0;
    size_t count = 0;
    if (SSL_write_ex(tls_->ssl, text + written, most - written, &count) != 1) {
      if (afterTls() < 0) return -1;
      break;
    }
    written += count;
  }
  return goesOn || flush() ? static_cast<int64_t>(written) : -1;
}

bool SecureStream::flush() {
  if (!tls_ || tls_->socket.flush()) return true;
  return over(std::strerror(errno)) == 0;
}

bool SecureStream::hasFlushed() const { return !tls_ || tls_->socket.records.empty(); }

int64_t SecureStream::bufferBytes() const {
  return tls_ ? static_cast<int64_t>(sizeof *tls_ + kReadAhead + kWriteBuffer + tls_->socket.records.capacity()) : 0;
}

int64_t SecureStream::afterTls() {
  const int error = errno, what = SSL_get_error(tls_->ssl, 0);
  if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE) return 0;
  if (what == SSL_ERROR_ZERO_RETURN) return over("");
  const unsigned long code = ERR_peek_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return over(reason ? reason : error != 0 ? std::strerror(error) : "");
}

#else

struct SecureStream::Tls {};

bool canEncrypt() { return false; }
SecureStream SecureStream::encrypted(FileDescriptor, Side, const std::string&, const KeyPurpose&) { std::abort(); }
SecureStream::Shaking SecureStream::shake() { return Shaking::kDone; }
int64_t SecureStream::readSecretly(void*, int64_t) { std::abort(); }
int64_t SecureStream::writeSecretly(const void*, int64_t, bool) { std::abort(); }
bool SecureStream::flush() { return true; }
bool SecureStream::hasFlushed() const { return true; }
int64_t SecureStream::bufferBytes() const { return 0; }

#endif

Status SecureStream::shakeHands(int64_t deadlineMs) {
  for (;;) {
    const Shaking state = shake();
    if (state == Shaking::kDone) return {};
    if (state == Shaking::kFailed) {
      return unavailableError("the TLS handshake failed (" + (failure_.empty() ? "it was cut off" : failure_) +
                              "); do all ranks have the same token, and is --plaintext given to all or none?");
    }
    if (!pollUntil(connection_, state == Shaking::kWantsRead ? POLLIN : POLLOUT, deadlineMs)) {
      return unavailableError("the TLS handshake was not over in time");
    }
  }
}

int64_t SecureStream::read(void* to, int64_t bytes) {
  if (tls_) return readSecretly(to, bytes);
  const int64_t count = receive(connection_.get(), to, bytes);
  if (count > 0) return count;
  return count < 0 && wouldBlock(errno) ? 0 : over(count == 0 ? "" : std::strerror(errno));
}

int64_t SecureStream::write(const void* from, int64_t bytes, bool goesOn) {
  if (tls_) return writeSecretly(from, bytes, goesOn);
  const int64_t count = sendSome(connection_.get(), from, bytes, goesOn);
  if (count >= 0) return count;
  return wouldBlock(errno) ? 0 : over(std::strerror(errno));
}

int64_t SecureStream::over(const char* why) {
  if (failure_.empty()) failure_ = why;
  return -1;
}

SecureStream::SecureStream() = default;
SecureStream::SecureStream(SecureStream&&) noexcept = default;
SecureStream& SecureStream::operator=(SecureStream&&) noexcept = default;
SecureStream::~SecureStream() = default;

SecureStream SecureStream::inTheClear(FileDescriptor connection) {
  SecureStream stream;
  stream.connection_ = std::move(connection);
  return stream;
}

// A part of a record may be here already.
void SecureStream::wakeAt(int64_t bytes) {
  const int least = static_cast<int>(std::max<int64_t>(bytes - (tls_ ? kMostOfRecord : 0), 1));
  if (least == wakesAt_) return;
  if (setsockopt(connection_.get(), SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least) == 0) wakesAt_ = least;
}

void SecureStream::endWriting() { shutdown(connection_.get(), SHUT_WR); }

}  // namespace hycrt
