// Secrets: hashes, proofs and random numbers for ranks that have to show each other that they know a token, by OpenSSL.
#ifndef HYCRT_SRC_BASE_SECRET_H_
#define HYCRT_SRC_BASE_SECRET_H_

#include <array>
#include <string>
#include <string_view>

namespace hycrt {

using Digest = std::array<unsigned char, 32>;

// Whether this runtime was built with OpenSSL, which all but randomDigest and hexadecimal need.
bool canProveTokens();

Digest sha256(std::string_view text);
Digest hmacSha256(std::string_view key, std::string_view text);

// Where two digests differ does not show in the time that comparing them takes.
bool equalInConstantTime(const Digest& a, const Digest& b);

// From the kernel's generator.
Digest randomDigest();

std::string hexadecimal(const Digest& digest);
std::string bytesOf(const Digest& digest);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_SECRET_H_
