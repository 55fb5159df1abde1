// One source, compiled once per instruction set, chosen by the CPU's features at the first call.
//
// CMake compiles every kernels/<op>/cpu.cpp with HYC_ISA set to generic, avx2 (with FMA) and avx512. A source puts its
// functions in `namespace HYC_ISA` and ends with HYC_DISPATCH for each public one: the generic compilation defines the
// public function, the others define nothing there. The surprise: such a source must not call inline functions with
// external linkage from the standard library, since the linker may keep the AVX-512 copy of one for everybody.
//
// Same bits on all three: element-wise kernels and sums, whose lanes are fixed. Products (gemm, attention) are equal on
// avx2 and avx512; generic has no fused multiply-add and differs there in the last bits.
#ifndef HYC_KERNELS_ISA_DISPATCH_H_
#define HYC_KERNELS_ISA_DISPATCH_H_

namespace hyc::kernels {

enum class Isa { kGeneric, kAvx2, kAvx512 };

// The best one that this CPU has, or the one named by the environment variable HYC_KERNELS_ISA (generic, avx2 or
// avx512) if this CPU has it. Read once.
Isa currentIsa();
// Whether the environment names none. One that is named means that set and no more: no tiles beside avx512.
bool isaIsBest();
const char *isaName(Isa isa);

template <typename Function>
Function *selectByIsa(Function *generic, Function *avx2, Function *avx512) {
  switch (currentIsa()) {
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx2:
      return avx2;
    case Isa::kGeneric:
      break;
  }
  return generic;
}

}  // namespace hyc::kernels

#define HYC_ISA_ID_generic 0
#define HYC_ISA_ID_avx2 1
#define HYC_ISA_ID_avx512 2
#define HYC_ISA_PASTE(a, b) a##b
#define HYC_ISA_ID_OF(isa) HYC_ISA_PASTE(HYC_ISA_ID_, isa)
#define HYC_ISA_ID HYC_ISA_ID_OF(HYC_ISA)

// HYC_DISPATCH(return type, name, (parameters), (arguments)), at the end of namespace hyc::kernels.
#if HYC_ISA_ID != 0
#define HYC_DISPATCH(Result, name, params, args)
#elif defined(__x86_64__)
#define HYC_DISPATCH(Result, name, params, args)                                                      \
  namespace avx2 {                                                                                    \
  Result name params;                                                                                 \
  }                                                                                                   \
  namespace avx512 {                                                                                  \
  Result name params;                                                                                 \
  }                                                                                                   \
  Result name params {                                                                                \
    static const auto function = selectByIsa<Result params>(generic::name, avx2::name, avx512::name); \
    return function args;                                                                             \
  }
#else
#define HYC_DISPATCH(Result, name, params, args) \
  Result name params { return generic::name args; }
#endif

// Function templates over the type T of the elements that a kernel keeps in memory, of which op.h has the declaration:
// HYC_INSTANTIATE(name) at the end of namespace HYC_ISA, then HYC_DISPATCH_TEMPLATE like HYC_DISPATCH.
#define HYC_INSTANTIATE(name)                 \
  template decltype(name<float>) name<float>; \
  template decltype(name<Bf16>) name<Bf16>;   \
  template decltype(name<F16>) name<F16>;

#if HYC_ISA_ID != 0
#define HYC_DISPATCH_TEMPLATE(Result, name, params, args)
#elif defined(__x86_64__)
#define HYC_DISPATCH_TEMPLATE(Result, name, params, args)                                                      \
  namespace avx2 {                                                                                             \
  template <typename T>                                                                                        \
  Result name params;                                                                                          \
  }                                                                                                            \
  namespace avx512 {                                                                                           \
  template <typename T>                                                                                        \
  Result name params;                                                                                          \
  }                                                                                                            \
  template <typename T>                                                                                        \
  Result name params {                                                                                         \
    static const auto function = selectByIsa<Result params>(generic::name<T>, avx2::name<T>, avx512::name<T>); \
    return function args;                                                                                      \
  }                                                                                                            \
  HYC_INSTANTIATE(name)
#else
#define HYC_DISPATCH_TEMPLATE(Result, name, params, args) \
  template <typename T>                                   \
  Result name params {                                    \
    return generic::name<T> args;                         \
  }                                                       \
  HYC_INSTANTIATE(name)
#endif

#endif  // HYC_KERNELS_ISA_DISPATCH_H_
