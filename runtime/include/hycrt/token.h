// Tokens: what the ranks of a job know and nobody else, for launchers that make one up. Ranks take it from
// HYC_TOKEN_FILE or HYC_TOKEN, and never say it: each proves to the other that it knows it (src/comm/shm/handshake.h).
#ifndef HYCRT_TOKEN_H_
#define HYCRT_TOKEN_H_

#include <string>

namespace hycrt {

// 256 random bits; empty where this runtime was built without OpenSSL, and ranks trust processes of their user alone.
std::string makeToken();

// 128 random bits, for a name that nobody else has.
std::string makeName();

}  // namespace hycrt

#endif  // HYCRT_TOKEN_H_
