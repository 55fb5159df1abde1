// CopyTask: what the ranks of a host are told of copies of their states (hycrt/copies.h).
#ifndef HYC_RUN_COPY_TASK_H_
#define HYC_RUN_COPY_TASK_H_

#include <cstdint>
#include <string>

namespace hycrun {

struct CopyTask {
  std::string socket;  // of the keeper there; empty: none
  std::string resume;  // the copy to go on from; empty: none
  int64_t start = 0;   // which start of the ranks this is
};

}  // namespace hycrun

#endif  // HYC_RUN_COPY_TASK_H_
