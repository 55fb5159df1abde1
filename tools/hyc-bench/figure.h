// Figure: one thing that was measured. Ranks tell them to the hyc-bench that has started them, a line each.
#ifndef HYC_BENCH_FIGURE_H_
#define HYC_BENCH_FIGURE_H_

#include <cstdint>
#include <string>

#include "hycrt/status.h"

namespace hycbench {

enum class Measure {
  kAllReduce,      // size: bytes of the vector
  kAllGather,      // size: bytes of the joined vector
  kSendReceive,    // size: bytes
  kProduct,        // of f32; size: operations
  kNarrowProduct,  // of bf16
  kMemory,         // size: bytes read and written
  kHost,           // moved between host and device
  kDiskWrite,      // size: bytes
  kDiskRead,
  kFloat8Product,  // of 8-bit floats
  kAttention,  // forward and gradient, causal, f32 on CPUs and bf16 on GPUs; size: operations, those of the half that
               // is looked at
  kLaunch,     // of one kernel after the other; rate: kernels
  kDeviceMemory,   // size: bytes that the device has
  kThinProduct,    // f32, of few rows by a large matrix that was used long ago; size: operations
  kReduceScatter,  // size: bytes of the vector that is summed up
  kOverlap,        // size: bytes of the all_reduce beside which products go on; rate: part of theirs that they keep
  kCachedProduct   // as the thin one, and measured in turns with it, of matrices that are in a cache
};
bool isProduct(Measure measure);  // of matrices as long as wide

// Of a thin product, which has as many operations as one of matrices of kCachedEdge x kCachedEdge.
inline constexpr int64_t kThinRows = 64, kThinInner = 1024, kThinColumns = 2048, kCachedEdge = 512;
inline constexpr int64_t kThinOperations = 2 * kThinRows * kThinInner * kThinColumns;
static_assert(kThinOperations == 2 * kCachedEdge * kCachedEdge * kCachedEdge);
inline constexpr int64_t kThinBytes =
    4 * (kThinRows * kThinInner + kThinInner * kThinColumns + kThinRows * kThinColumns);

// Where an exchange's ranks are: the tiers of a machine's file.
enum class Tier { kNone, kHost, kCluster };

struct Figure {
  Measure measure;
  Tier tier = Tier::kNone;
  int64_t size = 0;
  double seconds = 0;  // of the slowest rank
  double rate = 0;     // per second and rank: operations; bytes, of exchanges those that a rank sends in a ring
};

const char* nameOf(Measure measure);
const char* nameOf(Tier tier);

// A line that begins with kFigureMark and has no end.
inline constexpr char kFigureMark = '\x02';
// Before the figures of a pass but the first: its number and how many there are, as people say them ("2 of 3").
inline constexpr char kPassMark = '\x04';
// Before all figures, of rank 0: its threads, and behind a space its CPU; or 0 threads, and the device.
inline constexpr char kAboutMark = '\x03';
std::string encode(const Figure& figure);
hycrt::Result<Figure> decode(const std::string& line);

// "2.1 GB/s", "33 %"; "" of a device's memory.
std::string rateOf(const Figure& figure);
// "all_reduce      host       64 KiB      31.2 us      2.10 GB/s"
std::string toRow(const Figure& figure);
std::string headOfRows();

}  // namespace hycbench

#endif  // HYC_BENCH_FIGURE_H_
