// StateReader: the states of a rank from a checkpoint of any layout. What is read are the chunks of its files in which
// something lies that this rank holds, each once, by all of the rank's threads, compared with its sum before anything
// of it is taken.
#ifndef HYCRT_SRC_CHECKPOINT_STATE_READER_H_
#define HYCRT_SRC_CHECKPOINT_STATE_READER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/part_writer.h"
#include "hycrt/context.h"
#include "hycrt/status.h"
#include "io/state_window.h"

namespace hycrt {

// Whether the checkpoint is one of this model, trained this way: what is missing, what nothing knows, and what has
// another shape or type, all in one error, with the nearest names.
Status checkTensors(const CheckpointTensors& wanted, const Checkpoint& checkpoint);

// Fills the states that the checkpoint has; `filled` says which rows of the program's table that were. Padding stays as
// it is. A chunk that is not what was written is a data error that names file and tensor.
Status readStates(const Context& ctx, const Checkpoint& checkpoint, std::vector<bool>* filled);

// Sets the counters that the program has to those of the checkpoint.
void setCounters(const Context& ctx, const CheckpointManifest& manifest);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_STATE_READER_H_
