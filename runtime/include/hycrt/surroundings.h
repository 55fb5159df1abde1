// Surroundings: how many ranks there are, and how many of them share this one's machine. What is divided among the
// ranks of a machine (cores, devices, memory) asks for ranksHere; what the job does as a whole asks for worldSize.
#ifndef HYCRT_SURROUNDINGS_H_
#define HYCRT_SURROUNDINGS_H_

namespace hycrt {

struct Surroundings {
  int hosts = 1;      // machines of the job
  int ranksHere = 1;  // ranks on this one
  int worldSize = 1;  // ranks in all

  // All of them on one machine.
  static constexpr Surroundings oneHost(int ranks) { return {1, ranks, ranks}; }
};

}  // namespace hycrt

#endif  // HYCRT_SURROUNDINGS_H_
