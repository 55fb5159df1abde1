// What hyc-run tells the hyc-run of another host, over ssh's standard input, and how that one answers: a line a value,
// then "go", then a letter for each signal that is passed on. While the input stays open the ranks run; as it ends,
// they are ended. On the output come what ranks say and, marked, the records of steps.
#ifndef HYC_RUN_AGENT_H_
#define HYC_RUN_AGENT_H_

#include <string>
#include <vector>

#include "copy_task.h"
#include "hycrt/status.h"

namespace hycrun {

inline constexpr char kRecordMark = '\x02';  // in front of a record
// What comes after "go": the ranks shall write a checkpoint, and go on or end; or say where they are.
inline constexpr char kCheckpointLetter = 'c', kEndLetter = 'e', kWhereLetter = 'w';

struct AgentTask {
  std::string folder, directory, token, runName, masterAddress;
  int masterPort = 0;
  int first = 0, count = 0;  // ranks
  CopyTask copies;
  std::vector<std::string> arguments;
  std::vector<std::string> variables;  // NAME=value, for the ranks
};

// Of this process' environment what ranks of all hosts are to have: how NCCL, UCX and OpenMP are set up, and HYC_LOG. A
// host's own value gives way, as it does to what a user sets in front of a command.
std::vector<std::string> passedVariables();

// An error where a value has a line's end in it.
hycrt::Result<std::string> encodeTask(const AgentTask& task);
// From a descriptor that stays open.
hycrt::Result<AgentTask> receiveTask(int input);

}  // namespace hycrun

#endif  // HYC_RUN_AGENT_H_
