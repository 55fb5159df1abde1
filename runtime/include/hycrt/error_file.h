// The file in which torchrun's agent looks for why a rank has failed, TORCHELASTIC_ERROR_FILE. Its form is torch's
// (torch/distributed/elastic/multiprocessing/errors):
//
//   {"message": {"message": "rank 3: …", "extraInfo": {"py_callstack": "…", "timestamp": "1700000000"}}}
#ifndef HYCRT_ERROR_FILE_H_
#define HYCRT_ERROR_FILE_H_

#include "hycrt/status.h"

namespace hycrt {

// Nothing where the variable is not set; what cannot be written is said, and changes nothing else. The rank is what
// RANK says.
void writeErrorFile(const Status& failure);

}  // namespace hycrt

#endif  // HYCRT_ERROR_FILE_H_
