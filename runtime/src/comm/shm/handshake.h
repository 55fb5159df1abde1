// The handshake: how a rank that calls and rank 0 show each other that both know the job's token, before either says
// anything that others must not know. Only bytes go in and out here, whatever carries them:
//
//   1 rank to rank 0   version, rank, world size, nonce, hash of the job's name, hash of what ranks must agree upon
//   2 rank 0 to rank   version, rank 0, world size, nonce, and the same hashes
//   3 rank to rank 0   HMAC-SHA256(token, "hyc rank" 1 2)
//   4 rank 0 to rank   HMAC-SHA256(token, "hyc rank 0" 1 2 3 said), said
//
// Nonces are fresh, so nothing that was heard serves again; the two proofs begin differently, so neither can be sent
// back for the other; and each covers all that was claimed. Who does not know the token learns from it only what 1 and
// 2 say. Tokens have 256 bits: nobody finds one by trying.
#ifndef HYCRT_SRC_COMM_SHM_HANDSHAKE_H_
#define HYCRT_SRC_COMM_SHM_HANDSHAKE_H_

#include <string>

#include "base/secret.h"
#include "hycrt/status.h"

namespace hycrt {

inline constexpr size_t kClaimBytes = 4 + 4 + 4 + 3 * sizeof(Digest);

// What each side says of itself in the open.
struct Claim {
  int rank = 0;
  int worldSize = 0;
  Digest job{};
  Digest agreement{};
};

// Errors of both sides are kUnavailable, and say what the other one did.
class CallerHandshake {
 public:
  CallerHandshake(const std::string& token, const Claim& own);

  const std::string& opening() const { return opening_; }
  // This rank's proof, in answer to rank 0's claim.
  Result<std::string> prove(const std::string& claim);
  // What rank 0 says beside its proof, which is right.
  Result<std::string> accept(const std::string& proof) const;

 private:
  std::string token_, opening_, heard_;
};

class HubHandshake {
 public:
  HubHandshake(const std::string& token, const Claim& own) : token_(token), own_(own) {}

  // Rank 0's claim, in answer to the opening of a rank of the same job.
  Result<std::string> challenge(const std::string& opening);
  // Rank 0's proof, and what it says to a rank whose proof is right.
  Result<std::string> accept(const std::string& proof, const std::string& said) const;

  // What the rank has claimed; to be believed after accept().
  const Claim& caller() const { return caller_; }

 private:
  std::string token_;
  Claim own_, caller_;
  std::string heard_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_SHM_HANDSHAKE_H_
