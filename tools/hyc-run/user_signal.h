// What becomes of a signal that comes while ranks run, on one host or on several, and what the user is told of it.
#ifndef HYC_RUN_USER_SIGNAL_H_
#define HYC_RUN_USER_SIGNAL_H_

#include <string>

namespace hycrun {

struct SignalEffect {
  enum class Kind {
    kTellsWhere,    // each rank says where it is
    kNothing,       // a checkpoint is asked for, and there is no folder for one
    kSaves,         // the ranks write a checkpoint, and go on
    kSavesAndEnds,  // they write one, and end
    kEnds           // all ranks are ended at once
  };
  Kind kind;
  std::string words = {};  // empty: nothing
};

// `isAsked`: the ranks have been asked to write a checkpoint and to end before. Asked twice, all end at once.
SignalEffect effectOf(int signal, bool canSave, bool isAsked);

}  // namespace hycrun

#endif  // HYC_RUN_USER_SIGNAL_H_
