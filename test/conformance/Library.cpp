// Units of several programs: written, compiled by the host compiler, loaded, called.
#include "Library.h"

#include "test/Places.h"
#include "llvm/Support/xxhash.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

using namespace hyc::conformance;
namespace fs = std::filesystem;

namespace {
const std::string kScratch = hyc::places::inBuild("test/conformance/scratch");
constexpr size_t kTestsPerUnit = 24;

/// Once at the top, so that each program can stand in a namespace of its own.
constexpr char kTop[] = R"(#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "addresses.h"
#include "hycrt/collectives.h"
#include "hycrt/context.h"
#include "hycrt/indices.h"
#include "hycrt/offload.h"
#include "hycrt/program.h"
#include "kernels/adamw/op.h"
#include "kernels/argsort/op.h"
#include "kernels/attention/op.h"
#include "kernels/convolution/op.h"
#include "kernels/copy/op.h"
#include "kernels/cross_entropy/op.h"
#include "kernels/cumsum/op.h"
#include "kernels/embedding/op.h"
#include "kernels/exact_sum/op.h"
#include "kernels/gather/op.h"
#include "kernels/gemm/op.h"
#include "kernels/gradient_scale/op.h"
#include "kernels/lamb/op.h"
#include "kernels/group_norm/op.h"
#include "kernels/layer_norm/op.h"
#include "kernels/lion/op.h"
#include "kernels/loss_scale/op.h"
#include "kernels/math/math.h"
#include "kernels/math/truncate.h"
#include "kernels/narrow_float.h"
#include "kernels/parallel/team.h"
#include "kernels/permute/op.h"
#include "kernels/philox/op.h"
#include "kernels/pooling/op.h"
#include "kernels/reduce/loops.h"
#include "kernels/resample/op.h"
#include "kernels/sgd/op.h"
#include "kernels/shard_slice/op.h"
#include "kernels/sum_of_squares/op.h"
#include "kernels/write_mode.h"
)";

constexpr char kFlags[] = "-std=c++20 -O2 -march=native -mtune=generic -ffp-contract=off -fopenmp -fno-math-errno "
                          "-fno-trapping-math -w -fPIC -shared";

std::string headersHash() {
  std::map<std::string, std::string> texts;
  for (const char *folder : {"/kernels", "/runtime/include"})
    for (const auto &entry : fs::recursive_directory_iterator(hyc::places::inTree("") + folder))
      if (entry.path().extension() == ".h") {
        std::stringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        texts[entry.path()] = text.str();
      }
  std::string all = kFlags;
  for (const auto &[path, text] : texts)
    all += text;
  return std::to_string(llvm::xxh3_64bits(all));
}

/// The same in all programs.
std::string addressesOf(const std::vector<LoweredTest> &tests) {
  for (const LoweredTest &test : tests)
    if (test.reason.empty())
      return test.addresses;
  return "";
}

void writeFile(const std::string &path, const std::string &text) { std::ofstream(path) << text; }
} // namespace

Libraries::Libraries(std::vector<LoweredTest> &tests) {
  std::vector<std::pair<std::string, std::vector<LoweredTest *>>> programs;
  std::map<std::string, size_t> known;
  for (LoweredTest &test : tests) {
    if (!test.reason.empty())
      continue;
    auto [entry, isNew] = known.try_emplace(test.source, programs.size());
    if (isNew)
      programs.push_back({test.source, {}});
    programs[entry->second].second.push_back(&test);
  }
  const std::string headers = headersHash();
  for (size_t i = 0; i < programs.size(); ++i) {
    if (i % kTestsPerUnit == 0)
      units.emplace_back().source = kTop;
    Unit &unit = units.back();
    std::string name = "program" + std::to_string(i % kTestsPerUnit);
    bool prepares = programs[i].first.find("runPrepare(") != std::string::npos;
    unit.source += "\nnamespace " + name + " {\n" + programs[i].first + "}\nextern \"C\" const char* " + name +
                   "_run(std::byte* const* arenas) {\n  static constexpr hycrt::Program kNone = {};\n"
                   "  static std::string said;\n"
                   "  hycrt::Context ctx(kNone, {}, arenas, nullptr);\n  " +
                   (prepares ? name + "::runPrepare(ctx);\n  " : "") + name +
                   "::runForward(ctx, {0, 0, 0, true});\n  said = ctx.status().message();\n"
                   "  return ctx.status().ok() ? nullptr : said.c_str();\n}\n";
    for (LoweredTest *test : programs[i].second) {
      test->library = static_cast<int>((units.size() - 1) * kTestsPerUnit + i % kTestsPerUnit);
      unit.tests.push_back(test);
    }
  }
  fs::create_directories(kScratch);
  writeFile(kScratch + "/addresses.h", tests.empty() ? "" : addressesOf(tests));
  for (Unit &unit : units)
    unit.path = kScratch + "/" + std::to_string(llvm::xxh3_64bits(unit.source + headers));
  compile();
}

bool Libraries::build(const Unit &unit) {
  if (fs::exists(unit.path + ".so"))
    return true;
  writeFile(unit.path + ".cpp", unit.source);
  std::string include =
      " -I" + hyc::places::inTree("") + " -I" + hyc::places::inTree("runtime/include") + " -I" + kScratch;
  std::string command = hyc::places::compiler() + " " + kFlags + include + " " + unit.path + ".cpp -o " + unit.path +
                        ".tmp 2> " + unit.path + ".log && mv " + unit.path + ".tmp " + unit.path + ".so";
  return std::system(command.c_str()) == 0;
}

void Libraries::compile() {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i = next++; i < units.size(); i = next++)
      build(units[i]);
  };
  std::thread other(work);
  work();
  other.join();
  for (Unit &unit : units) {
    unit.handle = fs::exists(unit.path + ".so") ? dlopen((unit.path + ".so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    const char *error = unit.handle ? nullptr : dlerror();
    for (LoweredTest *test : unit.tests)
      if (!unit.handle)
        test->reason = "its C++ does not compile: " + (error ? std::string(error) : unit.path + ".log");
  }
}

std::string Libraries::run(const LoweredTest &test) const {
  const Unit &unit = units[test.library / kTestsPerUnit];
  std::string name = "program" + std::to_string(test.library % kTestsPerUnit) + "_run";
  auto *call = reinterpret_cast<const char *(*)(std::byte *const *)>(dlsym(unit.handle, name.c_str()));
  if (!call)
    return "has no entry " + name;
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte *> arenas;
  for (int64_t bytes : test.arenaBytes) {
    // Filled with what no result is, and aligned as the runtime aligns arenas.
    std::vector<std::byte> &arena = memory.emplace_back(bytes + 64, std::byte{0xA5});
    auto address = reinterpret_cast<uintptr_t>(arena.data());
    arenas.push_back(arena.data() + (64 - address % 64) % 64);
  }
  for (const auto &[tensor, place] : test.inputs)
    if (!tensor.bytes.empty())
      std::memcpy(arenas[place.arena] + place.offset, tensor.bytes.data(), tensor.bytes.size());
  if (const char *failure = call(arenas.data()))
    return failure;
  for (size_t i = 0; i < test.outputs.size(); ++i) {
    const auto &[expected, place] = test.outputs[i];
    std::string difference = compare(expected, reinterpret_cast<const char *>(arenas[place.arena] + place.offset));
    if (!difference.empty())
      return "output " + std::to_string(i) + ": " + difference;
  }
  return "";
}
