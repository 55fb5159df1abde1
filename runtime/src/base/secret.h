// Secrets: hashes, proofs and random numbers for ranks that have to show each other that they know a token, by OpenSSL.
#ifndef HYCRT_SRC_BASE_SECRET_H_
#define HYCRT_SRC_BASE_SECRET_H_

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace hycrt {

using Digest = std::array<unsigned char, 32>;

// Whether this runtime was built with OpenSSL, which all but randomDigest, hexadecimal and Sha256 need.
bool canProveTokens();

Digest sha256(std::string_view text);
Digest hmacSha256(std::string_view key, std::string_view text);

// SHA-256 of what is added bit by bit.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  Sha256& operator=(Sha256&&) = delete;
  void add(const void* data, size_t bytes);
  // In hexadecimal digits; empty without OpenSSL. Nothing is added afterwards.
  std::string finish();

 private:
  void* state_;
};

// Where two digests differ does not show in the time that comparing them takes.
bool equalInConstantTime(const Digest& a, const Digest& b);

// From the kernel's generator.
Digest randomDigest();

std::string hexadecimal(const Digest& digest);
std::string bytesOf(const Digest& digest);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_SECRET_H_
