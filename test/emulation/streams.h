// Streams, events and recorded graphs of the emulated device. What is put on a stream is a node that comes after
// others: the one before it on its stream, and those whose events the stream was told to wait for.
//
//   HYC_EMULATION_STREAMS=late     a node runs when somebody waits for it, and what nobody waits for last [late]
//   HYC_EMULATION_STREAMS=early    a node runs as soon as it may, mostly at once
//   HYC_EMULATION_STREAMS=copies   on streams that never had a kernel as soon as it may, on others late
//
// Code that lacks an event between two streams, or lets the host touch what a copy still reads, gives other results in
// one of them. Threads of the host may call at once: one lock is held by each call, and while nodes run.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_runtime.h"

namespace emulation {

// False: it cannot go on yet, as when a peer has not come; it is tried again.
using Work = std::function<bool()>;

using Lock = std::lock_guard<std::recursive_mutex>;
std::recursive_mutex &mutex();

// An error where the stream is being recorded into what cannot be a graph any more.
cudaError_t put(cudaStream_t stream, Work work);
// The stream is one of those that have kernels.
void noteKernel(cudaStream_t stream);
// Runs whatever can run, of all streams.
void advanceAll();
// Waits for all streams.
void finishAll();
// Of the default stream, and of those that it waits for.
void finishDefault();
bool isRecording();
// A call that has no place in a recorded step was made: its end will say so.
cudaError_t breakRecording();

} // namespace emulation
