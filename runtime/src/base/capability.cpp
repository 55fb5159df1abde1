// Whether programs compiled for some architectures run on a GPU of another.
#include "hycrt/accelerator.h"

namespace hycrt {

bool runsOnCapability(const Table<int>& architectures, int major, int minor) {
  for (int architecture : architectures) {
    if (architecture / 10 == major && architecture % 10 <= minor) return true;
  }
  return false;
}

}  // namespace hycrt
