// The mesh: how world ranks map to coordinates. Axes are the plan's: a list of names and sizes, major to minor, of
// which the runtime knows no name. Stages, the slowest, are no axis of values. On axes a and b:
//
//   rank = (stage * A + a) * B + b
//
// so that a stage's ranks are neighbours and those along the last axis the nearest. Worked for 2 stages, dp 2, tp 2:
//   rank      0  1  2  3  4  5  6  7
//   tp        0  1  0  1  0  1  0  1
//   dp        0  0  1  1  0  0  1  1
//   stage     0  0  0  0  1  1  1  1
#ifndef HYCRT_MESH_H_
#define HYCRT_MESH_H_

#include <cstdint>
#include <string>

#include "hycrt/types.h"

namespace hycrt {

// An axis: its place in Mesh::axes.
enum class Axis : uint8_t {};

// A set of axes is the bits of their places; one more bit stands for all stages, which groups may span, too.
struct AxisSet {
  uint32_t bits = 0;
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits(uint32_t{1} << static_cast<uint8_t>(axis)) {}  // NOLINT: implicit by design
  constexpr bool has(Axis axis) const { return (bits & AxisSet(axis).bits) != 0; }
  constexpr bool hasStages() const { return bits >> 31 != 0; }
  static constexpr AxisSet allStages() {
    AxisSet set;
    set.bits = uint32_t{1} << 31;
    return set;
  }
};
constexpr AxisSet operator|(AxisSet a, AxisSet b) {
  AxisSet both;
  both.bits = a.bits | b.bits;
  return both;
}
constexpr AxisSet operator|(Axis a, Axis b) { return AxisSet(a) | AxisSet(b); }

struct MeshAxis {
  char name[24] = {};  // "dp"; ends with a zero
  int size = 1;
};

struct Mesh {
  int stages = 1;
  ShortList<MeshAxis> axes = {};  // major to minor
  ShortList<Axis> batch = {};     // those that split the samples of a micro-batch, major to minor
};

struct Coordinates {
  int stage = 0;
  int place = 0;  // among the ranks of the stage
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

constexpr int sizeOf(const Mesh& mesh, Axis axis) { return mesh.axes[static_cast<int>(axis)].size; }

constexpr int ranksPerStage(const Mesh& mesh) {
  int ranks = 1;
  for (const MeshAxis& axis : mesh.axes) ranks *= axis.size;
  return ranks;
}

constexpr int rankCount(const Mesh& mesh) { return mesh.stages * ranksPerStage(mesh); }

constexpr int rankOf(const Mesh& mesh, const Coordinates& at) { return at.stage * ranksPerStage(mesh) + at.place; }

constexpr Coordinates coordinatesOf(const Mesh& mesh, int rank) {
  return {rank / ranksPerStage(mesh), rank % ranksPerStage(mesh)};
}

constexpr int coordinateOf(const Mesh& mesh, const Coordinates& at, Axis axis) {
  int minor = 1;
  for (int i = static_cast<int>(axis) + 1; i < mesh.axes.size; ++i) minor *= mesh.axes[i].size;
  return at.place / minor % sizeOf(mesh, axis);
}

// Of several axes, the first the major, taken as one.
constexpr int64_t sizeOf(const Mesh& mesh, const ShortList<Axis>& axes) {
  int64_t size = 1;
  for (Axis axis : axes) size *= sizeOf(mesh, axis);
  return size;
}
constexpr int64_t coordinateOf(const Mesh& mesh, const Coordinates& at, const ShortList<Axis>& axes) {
  int64_t coordinate = 0;
  for (Axis axis : axes) coordinate = coordinate * sizeOf(mesh, axis) + coordinateOf(mesh, at, axis);
  return coordinate;
}

// "pp 2 × dp 2 × tp 2", stages first.
std::string describe(const Mesh& mesh);

// "pp 1, dp 0, tp 1"
std::string describe(const Mesh& mesh, const Coordinates& at);

}  // namespace hycrt

#endif  // HYCRT_MESH_H_
