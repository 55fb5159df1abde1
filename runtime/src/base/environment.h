// What the launcher says through the environment: which rank this is, and where the others are met.
#ifndef HYCRT_SRC_BASE_ENVIRONMENT_H_
#define HYCRT_SRC_BASE_ENVIRONMENT_H_

#include <cstdint>
#include <string>

#include "base/launchers.h"
#include "hycrt/mesh.h"
#include "hycrt/status.h"
#include "hycrt/surroundings.h"

namespace hycrt {

// The names that hyc-run and the ranks agree on.
inline constexpr const char* kRendezvousVariable = "HYC_RENDEZVOUS";   // name of an abstract Unix socket
inline constexpr const char* kTokenVariable = "HYC_TOKEN";             // what strangers do not know
inline constexpr const char* kTokenFileVariable = "HYC_TOKEN_FILE";    // a file that holds it, and only its owner reads
inline constexpr const char* kRecordFdVariable = "HYC_RECORD_FD";      // rank 0 writes a JSON line per step there
inline constexpr const char* kCheckOnlyVariable = "HYC_CHECK_ONLY";    // "1": see below
inline constexpr const char* kCopySocketVariable = "HYC_COPIES";       // name of an abstract Unix socket, a keeper's
inline constexpr const char* kCopyStartVariable = "HYC_COPY_START";    // which start of the ranks this is, from 0
inline constexpr const char* kCopyResumeVariable = "HYC_COPY_RESUME";  // the copy that they go on from

struct Environment : Surroundings {
  int rank = 0;
  int localRank = 0;
  std::string socketName;  // of a Unix socket: abstract, or a path, which begins with '/'; empty: ask rank 0 over TCP
  int port = 0;            // TCP; used where socketName is empty, and only with a token
  std::string masterAddress;  // rank 0's, by name or number; of a job on several hosts
  HubIsTold hubIsTold = HubIsTold::kByVariables;
  int pmiDescriptor = -1, agentPort = 0;  // of the two that are asked
  std::string job;                        // what the launcher calls the job; the same for all ranks
  std::string run;    // a name that no other run has: hyc-run's, else this rank's alone; part of names of files
  std::string token;  // empty: that a process is this user's has to do, and the other is on this machine
  int recordFd = -1;
  // Of a job that keeps copies of its states in the memory of hosts (hycrt/copies.h).
  std::string copySocket;    // this host's keeper
  std::string copyResume;    // the copy to go on from
  int64_t copyStart = 0;     // which start of the ranks this is
  bool checksOnly = false;   // ends when the program is known to be the one that the manifest means
  bool underHycRun = false;  // a launcher waits for this process and will end it if a peer fails
};

inline constexpr size_t kMinTokenBytes = 32, kMaxTokenBytes = 200;

// The name of a socket in a folder that only this user may enter; in `name` letters, digits and '-' count.
Result<std::string> socketPath(std::string name);

// Without RANK and WORLD_SIZE the process is the only rank, which fits a mesh of one only.
Result<Environment> readEnvironment(const Mesh& mesh);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_ENVIRONMENT_H_
