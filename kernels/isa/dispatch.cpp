// Which instruction set the kernels use on this CPU.
#include "kernels/isa/dispatch.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace hyc::kernels {

static Isa bestIsa() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::kGeneric;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
#else
  return Isa::kGeneric;
#endif
}

const char *isaName(Isa isa) {
  constexpr const char *kNames[] = {"generic", "avx2", "avx512"};
  return kNames[static_cast<int>(isa)];
}

Isa currentIsa() {
  static const Isa isa = [] {
    const Isa best = bestIsa();
    const char *wanted = std::getenv("HYC_KERNELS_ISA");
    for (Isa candidate : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512})
      if (wanted && candidate <= best && std::strcmp(wanted, isaName(candidate)) == 0) return candidate;
    return best;
  }();
  return isa;
}

bool isaIsBest() {
  static const bool unnamed = std::getenv("HYC_KERNELS_ISA") == nullptr;
  return unnamed;
}

}  // namespace hyc::kernels
