// The few functions of OpenSSL that proofs take. Without OpenSSL there are no tokens, and nothing here may be asked.
#include "base/secret.h"

#include <sys/random.h>

#include <cstdlib>
#include <cstring>

#include "hycrt/token.h"

#ifdef HYCRT_HAS_OPENSSL
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#endif

namespace hycrt {

#ifdef HYCRT_HAS_OPENSSL

bool canProveTokens() { return true; }

// What fails here is memory, or a library that is broken: a proof must not be made up then.
Digest sha256(std::string_view text) {
  Digest digest{};
  unsigned int bytes = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &bytes, EVP_sha256(), nullptr) != 1) std::abort();
  return digest;
}

Digest hmacSha256(std::string_view key, std::string_view text) {
  Digest digest{};
  unsigned int bytes = 0;
  const auto* input = reinterpret_cast<const unsigned char*>(text.data());
  if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), input, text.size(), digest.data(), &bytes)) {
    std::abort();
  }
  return digest;
}

Sha256::Sha256() : state_(EVP_MD_CTX_new()) {
  if (!state_ || EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(state_), EVP_sha256(), nullptr) != 1) std::abort();
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(state_)); }

void Sha256::add(const void* data, size_t bytes) {
  if (EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(state_), data, bytes) != 1) std::abort();
}

std::string Sha256::finish() {
  Digest digest{};
  if (EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(state_), digest.data(), nullptr) != 1) std::abort();
  return hexadecimal(digest);
}

bool equalInConstantTime(const Digest& a, const Digest& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

#else

bool canProveTokens() { return false; }
Digest sha256(std::string_view) { std::abort(); }
Digest hmacSha256(std::string_view, std::string_view) { std::abort(); }
bool equalInConstantTime(const Digest&, const Digest&) { std::abort(); }
Sha256::Sha256() : state_(nullptr) {}
Sha256::~Sha256() = default;
void Sha256::add(const void*, size_t) {}
std::string Sha256::finish() { return {}; }

#endif

// So few bytes are always delivered whole, once the generator has started.
Digest randomDigest() {
  Digest digest{};
  if (getrandom(digest.data(), digest.size(), 0) != static_cast<ssize_t>(digest.size())) std::abort();
  return digest;
}

std::string hexadecimal(const Digest& digest) {
  std::string text;
  for (unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string bytesOf(const Digest& digest) { return std::string(digest.begin(), digest.end()); }

std::string makeToken() { return canProveTokens() ? hexadecimal(randomDigest()) : ""; }

std::string makeName() { return hexadecimal(randomDigest()).substr(0, 32); }

}  // namespace hycrt
