// Compilers tell of each instruction set that they may use by a macro.
#include "Build/InstructionSets.h"

#include "Build/MemoryFile.h"

#include "hyc/Support/DriverError.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <optional>

using namespace llvm;
using namespace hyc;

namespace {
struct InstructionSet {
  StringLiteral macro, name; ///< of the compiler, of Linux
};
} // namespace

/// Macros as GCC and Clang have them (the psABI's and ACLE's names); names as in Linux' cpufeatures.h and hwcap.h.
static constexpr InstructionSet kSets[] = {
    {"__SSE3__", "pni"},
    {"__SSSE3__", "ssse3"},
    {"__SSE4_1__", "sse4_1"},
    {"__SSE4_2__", "sse4_2"},
    {"__SSE4A__", "sse4a"},
    {"__POPCNT__", "popcnt"},
    {"__LZCNT__", "abm"},
    {"__MOVBE__", "movbe"},
    {"__AES__", "aes"},
    {"__PCLMUL__", "pclmulqdq"},
    {"__AVX__", "avx"},
    {"__F16C__", "f16c"},
    {"__FMA__", "fma"},
    {"__FMA4__", "fma4"},
    {"__XOP__", "xop"},
    {"__BMI__", "bmi1"},
    {"__BMI2__", "bmi2"},
    {"__ADX__", "adx"},
    {"__SHA__", "sha_ni"},
    {"__GFNI__", "gfni"},
    {"__VAES__", "vaes"},
    {"__VPCLMULQDQ__", "vpclmulqdq"},
    {"__AVX2__", "avx2"},
    {"__AVXVNNI__", "avx_vnni"},
    {"__AVX512F__", "avx512f"},
    {"__AVX512BW__", "avx512bw"},
    {"__AVX512CD__", "avx512cd"},
    {"__AVX512DQ__", "avx512dq"},
    {"__AVX512VL__", "avx512vl"},
    {"__AVX512IFMA__", "avx512ifma"},
    {"__AVX512VBMI__", "avx512vbmi"},
    {"__AVX512VBMI2__", "avx512_vbmi2"},
    {"__AVX512VNNI__", "avx512_vnni"},
    {"__AVX512BITALG__", "avx512_bitalg"},
    {"__AVX512VPOPCNTDQ__", "avx512_vpopcntdq"},
    {"__AVX512VP2INTERSECT__", "avx512_vp2intersect"},
    {"__AVX512BF16__", "avx512_bf16"},
    {"__AVX512FP16__", "avx512_fp16"},
    {"__AMX_TILE__", "amx_tile"},
    {"__AMX_INT8__", "amx_int8"},
    {"__AMX_BF16__", "amx_bf16"},
    {"__ARM_NEON", "asimd"},
    {"__ARM_FEATURE_ATOMICS", "atomics"},
    {"__ARM_FEATURE_FP16_VECTOR_ARITHMETIC", "asimdhp"},
    {"__ARM_FEATURE_DOTPROD", "asimddp"},
    {"__ARM_FEATURE_MATMUL_INT8", "i8mm"},
    {"__ARM_FEATURE_BF16_VECTOR_ARITHMETIC", "bf16"},
    {"__ARM_FEATURE_SVE", "sve"},
    {"__ARM_FEATURE_SVE2", "sve2"},
};

/// The names of all macros in lines such as "#define __AVX2__ 1".
static StringSet<> macrosOf(StringRef text) {
  StringSet<> macros;
  SmallVector<StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines)
    if (line.consume_front("#define "))
      macros.insert(line.take_until([](char c) { return c == ' ' || c == '('; }));
  return macros;
}

Expected<std::vector<std::string>> hyc::instructionsOf(const Toolchain &toolchain) {
  constexpr size_t kMostMacros = 1 << 20, kMostSaid = 1000;
  Expected<std::unique_ptr<MemoryFile>> told = MemoryFile::create(), log = MemoryFile::create();
  if (!told || !log)
    return joinErrors(told.takeError(), log.takeError());
  const std::string march = "-march=" + toolchain.march;
  const StringRef arguments[] = {toolchain.compiler, march, "-dM", "-E", "-x", "c++", "/dev/null"};
  const std::optional<StringRef> redirects[] = {StringRef(""), (*told)->getPath(), (*log)->getPath()};
  std::string problem;
  int status = sys::ExecuteAndWait(toolchain.compiler, arguments, std::nullopt, redirects, 0, 0, &problem);
  if (status < 0)
    return makeError(ExitCode::Unavailable, "cannot start the host compiler '" + toolchain.compiler + "': " + problem);
  if (status > 0)
    return makeError(ExitCode::Usage, "--march is \"" + toolchain.march +
                                          "\", which the host compiler does not take; expected native, or a CPU that "
                                          "it names, as in x86-64-v3; " +
                                          sys::path::filename(toolchain.compiler).str() + " says:\n" +
                                          StringRef((*log)->read(kMostSaid)).rtrim().str());
  const StringSet<> macros = macrosOf((*told)->read(kMostMacros));
  if (macros.empty())
    return makeError(ExitCode::Unavailable, "the host compiler '" + toolchain.compiler +
                                                "' tells of no macros with -dM -E; expected GCC or Clang");
  std::vector<std::string> names;
  for (const InstructionSet &set : kSets)
    if (macros.contains(set.macro))
      names.push_back(set.name.str());
  return names;
}
