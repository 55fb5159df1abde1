// Meshes and places on them in words.
#include "hycrt/mesh.h"

namespace hycrt {

std::string describe(const Mesh& mesh) {
  std::string text = "pp " + std::to_string(mesh.stages);
  for (const MeshAxis& axis : mesh.axes) text += std::string(" × ") + axis.name + " " + std::to_string(axis.size);
  return text;
}

std::string describe(const Mesh& mesh, const Coordinates& at) {
  std::string text = "pp " + std::to_string(at.stage);
  for (int i = 0; i < mesh.axes.size; ++i) {
    const Axis axis{static_cast<uint8_t>(i)};
    text += std::string(", ") + mesh.axes[i].name + " " + std::to_string(coordinateOf(mesh, at, axis));
  }
  return text;
}

}  // namespace hycrt
