// Claims as bytes, and proofs over them.
#include "comm/shm/handshake.h"

#include <algorithm>
#include <cstdint>

namespace hycrt {
namespace {

constexpr uint32_t kVersion = 1;

void append(std::string* bytes, uint32_t word) {
  for (int shift = 0; shift < 32; shift += 8) bytes->push_back(static_cast<char>(word >> shift & 0xFF));
}

uint32_t wordAt(const std::string& bytes, size_t at) {
  uint32_t word = 0;
  for (size_t i = 4; i > 0; --i) word = word << 8 | static_cast<unsigned char>(bytes[at + i - 1]);
  return word;
}

Digest digestAt(const std::string& bytes, size_t at) {
  Digest digest{};
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), digest.size(), digest.begin());
  return digest;
}

// With a fresh nonce.
std::string encode(const Claim& claim) {
  std::string bytes;
  append(&bytes, kVersion);
  append(&bytes, static_cast<uint32_t>(claim.rank));
  append(&bytes, static_cast<uint32_t>(claim.worldSize));
  return bytes + bytesOf(randomDigest()) + bytesOf(claim.job) + bytesOf(claim.agreement);
}

Result<Claim> decode(const std::string& bytes) {
  if (bytes.size() != kClaimBytes) return unavailableError("what it sent is no frame of this protocol");
  if (wordAt(bytes, 0) != kVersion) {
    return unavailableError("it speaks version " + std::to_string(wordAt(bytes, 0)) + " of the protocol, expected " +
                            std::to_string(kVersion));
  }
  Claim claim;
  claim.rank = static_cast<int>(wordAt(bytes, 4));
  claim.worldSize = static_cast<int>(wordAt(bytes, 8));
  claim.job = digestAt(bytes, 12 + sizeof(Digest));
  claim.agreement = digestAt(bytes, 12 + 2 * sizeof(Digest));
  return claim;
}

Digest callersProof(const std::string& token, const std::string& claims) {
  return hmacSha256(token, "hyc rank" + claims);
}

Digest hubsProof(const std::string& token, const std::string& claims, const std::string& said) {
  return hmacSha256(token, "hyc rank 0" + claims + bytesOf(callersProof(token, claims)) + said);
}

constexpr const char* kWrongToken = "its token is not this job's";

}  // namespace

CallerHandshake::CallerHandshake(const std::string& token, const Claim& own) : token_(token), opening_(encode(own)) {}

Result<std::string> CallerHandshake::prove(const std::string& claim) {
  Result<Claim> hub = decode(claim);
  if (!hub.ok()) return hub.status();
  heard_ = opening_ + claim;
  return bytesOf(callersProof(token_, heard_));
}

Result<std::string> CallerHandshake::accept(const std::string& proof) const {
  if (proof.size() < sizeof(Digest) || heard_.empty()) {
    return unavailableError("what it sent is no frame of this protocol");
  }
  const std::string said = proof.substr(sizeof(Digest));
  if (!equalInConstantTime(digestAt(proof, 0), hubsProof(token_, heard_, said))) return unavailableError(kWrongToken);
  return said;
}

Result<std::string> HubHandshake::challenge(const std::string& opening) {
  Result<Claim> caller = decode(opening);
  if (!caller.ok()) return caller.status();
  if (caller->job != own_.job) return unavailableError("it is of another job");
  caller_ = *caller;
  const std::string claim = encode(own_);
  heard_ = opening + claim;
  return claim;
}

Result<std::string> HubHandshake::accept(const std::string& proof, const std::string& said) const {
  if (proof.size() != sizeof(Digest) || heard_.empty()) {
    return unavailableError("what it sent is no frame of this protocol");
  }
  if (!equalInConstantTime(digestAt(proof, 0), callersProof(token_, heard_))) return unavailableError(kWrongToken);
  return bytesOf(hubsProof(token_, heard_, said)) + said;
}

}  // namespace hycrt
