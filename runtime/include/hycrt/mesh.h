// The mesh: how world ranks map to coordinates. tp varies fastest, then dp, then pp:
//
//   rank = (pp * DP + dp) * TP + tp
//
// so that a stage's ranks are neighbours and tensor-parallel peers are the nearest. Worked for tp 2, pp 2, dp 2:
//   rank      0  1  2  3  4  5  6  7
//   tp        0  1  0  1  0  1  0  1
//   dp        0  0  1  1  0  0  1  1
//   pp        0  0  0  0  1  1  1  1
#ifndef HYCRT_MESH_H_
#define HYCRT_MESH_H_

#include <cstdint>

namespace hycrt {

// Values are bits, so that a set of axes is their sum.
enum class Axis : uint8_t { kTp = 1, kPp = 2, kDp = 4 };

struct AxisSet {
  uint8_t bits = 0;
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits(static_cast<uint8_t>(axis)) {}  // NOLINT: implicit by design
  constexpr bool has(Axis axis) const { return (bits & static_cast<uint8_t>(axis)) != 0; }
};
constexpr AxisSet operator|(AxisSet a, AxisSet b) {
  AxisSet both;
  both.bits = static_cast<uint8_t>(a.bits | b.bits);
  return both;
}
constexpr AxisSet operator|(Axis a, Axis b) { return AxisSet(a) | AxisSet(b); }

struct Mesh {
  int tp = 1;
  int pp = 1;
  int dp = 1;
};

struct Coordinates {
  int tp = 0;
  int pp = 0;
  int dp = 0;
};

// Flat shards are whole blocks of this many elements.
inline constexpr int64_t kFlatBlock = 1024;

// Elements of one flat shard of `elements` over `parts` ranks; the last shards may have fewer of them, or none.
constexpr int64_t flatShardSize(int64_t elements, int64_t parts) {
  const int64_t blocks = (elements + kFlatBlock - 1) / kFlatBlock;
  return (blocks + parts - 1) / parts * kFlatBlock;
}

// The elements [begin, begin + count) of a flattened tensor that one rank's flat shard has.
struct FlatShard {
  int64_t begin;
  int64_t count;
};

// Of shards of `size` elements the one at `coordinate`.
constexpr FlatShard flatShard(int64_t coordinate, int64_t size, int64_t elements) {
  const int64_t begin = coordinate * size < elements ? coordinate * size : elements;
  return {begin, elements - begin < size ? elements - begin : size};
}

constexpr int rankCount(const Mesh& mesh) { return mesh.tp * mesh.pp * mesh.dp; }

constexpr int rankOf(const Mesh& mesh, const Coordinates& at) { return (at.pp * mesh.dp + at.dp) * mesh.tp + at.tp; }

constexpr Coordinates coordinatesOf(const Mesh& mesh, int rank) {
  return {rank % mesh.tp, rank / (mesh.tp * mesh.dp), rank / mesh.tp % mesh.dp};
}

constexpr int sizeOf(const Mesh& mesh, Axis axis) {
  return axis == Axis::kTp ? mesh.tp : axis == Axis::kPp ? mesh.pp : mesh.dp;
}

constexpr int coordinateOf(const Coordinates& at, Axis axis) {
  return axis == Axis::kTp ? at.tp : axis == Axis::kPp ? at.pp : at.dp;
}

}  // namespace hycrt

#endif  // HYCRT_MESH_H_
