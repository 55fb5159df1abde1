// Runs the host's compiler and its linker.
#include "Build/HostCompiler.h"

#include "Build/MemoryFile.h"

#include "Build/ObjectCache.h"
#include "hyc/Driver/Interruption.h"
#include "hyc/Support/DriverError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

using namespace llvm;
using namespace hyc;

/// Bytes that the cache may take: some hundred models.
static constexpr uint64_t kCacheBytes = uint64_t(1) << 30;
/// Text that is compiled in one go: it takes about twice as long as the headers in front of it.
static constexpr size_t kUnitBytes = size_t(128) << 10;

/// Flags of every generated file. Contracting a·b + c would give a fused kernel other bits than its parts have. Tuned
/// for Intel's CPUs with AVX-512, GCC 12 stores the constants {1, 1, 1, 0} as four times 1: it is told to tune for
/// none.
static std::vector<std::string> compileFlags(const Toolchain &toolchain) {
  return {"-std=c++20",
          "-O" + std::to_string(toolchain.optimization),
          "-march=" + toolchain.march,
          "-mtune=generic",
          "-ffp-contract=off",
          "-fopenmp",
          "-fno-math-errno",
          "-fno-trapping-math",
          "-DNDEBUG",
          "-w"};
}

/// Runs `command` without a shell; the failure quotes the beginning of what it says.
static Error run(const ProcessGroup &group, ArrayRef<std::string> command, StringRef what) {
  Expected<std::unique_ptr<MemoryFile>> log = MemoryFile::create();
  if (!log)
    return log.takeError();
  Expected<pid_t> pid = group.start(command, (*log)->getPath());
  if (!pid)
    return makeError(ExitCode::Unavailable,
                     "cannot start the host compiler '" + command.front() + "': " + toString(pid.takeError()));
  std::string problem;
  sys::ProcessInfo process;
  process.Pid = process.Process = *pid;
  Interruption::addChild(process.Pid);
  sys::ProcessInfo ended = sys::Wait(process, std::nullopt, &problem);
  Interruption::forgetChild(process.Pid);
  if (ended.ReturnCode == 0)
    return Error::success();
  const std::string output = (*log)->read(4000);
  SmallVector<StringRef> lines;
  StringRef(output).split(lines, '\n');
  for (StringRef line : lines)
    if (line.contains("No space left on device"))
      return makeError(ExitCode::Io, "the host compiler has no room for " + what + ": " + line);
  std::string why = ended.ReturnCode < 0 ? problem : "status " + std::to_string(ended.ReturnCode);
  return makeError(ExitCode::Internal, "the host compiler failed on " + what + " (" + why + "):\n" + output);
}

/// In the compiler's order: what was generated lies together, and is looked at first.
std::vector<std::string> HostCompiler::foldersOf(const Toolchain &toolchain, const std::string &sourceFolder) {
  std::vector<std::string> folders = {sourceFolder};
  append_range(folders, toolchain.includeDirs);
  return folders;
}

std::string HostCompiler::objectOf(const Unit &unit) const {
  std::string name = unit.front();
  std::replace(name.begin(), name.end(), '/', '.');
  return objectFolder + "/" + name + ".o";
}

std::vector<std::string> HostCompiler::compileCommand(const Unit &unit, StringRef object) const {
  std::vector<std::string> command = {toolchain.compiler};
  append_range(command, compileFlags(toolchain));
  for (const std::string &folder : toolchain.includeDirs)
    command.push_back("-I" + folder);
  // The staging folder's name must reach no object, or the cache would never hit.
  command.push_back("-ffile-prefix-map=" + sourceFolder + "=src");
  for (const std::string &source : ArrayRef(unit).drop_back())
    command.insert(command.end(), {"-include", sourceFolder + "/" + source});
  command.insert(command.end(), {"-c", sourceFolder + "/" + unit.back(), "-o", object.str()});
  return command;
}

/// The flags of cmake/HycCuda.cmake, and every architecture's binary: nothing is left to be translated at start.
constexpr const char *kNvccFlags[] = {"-std=c++20",  "-O3", "--expt-relaxed-constexpr",
                                      "-fmad=false", "-w",  "-Xcompiler=-ffp-contract=off,-w"};

std::vector<std::string> HostCompiler::nvccCommand(StringRef source, StringRef object) const {
  std::vector<std::string> command = {toolchain.nvcc, "-ccbin", toolchain.compiler};
  command.insert(command.end(), std::begin(kNvccFlags), std::end(kNvccFlags));
  for (int64_t architecture : toolchain.architectures)
    command.push_back("-gencode=arch=compute_" + std::to_string(architecture) + ",code=sm_" +
                      std::to_string(architecture));
  for (const std::string &folder : toolchain.includeDirs)
    command.push_back("-I" + folder);
  command.push_back("-Xcompiler=-ffile-prefix-map=" + sourceFolder + "=src");
  command.insert(command.end(), {"-c", sourceFolder + "/" + source.str(), "-o", object.str()});
  return command;
}

Expected<std::string> HostCompiler::read(StringRef source) const {
  auto text = MemoryBuffer::getFile(sourceFolder + "/" + source);
  if (!text)
    return ioError("cannot read generated '" + source + "'", text.getError());
  return (*text)->getBuffer().str();
}

static bool isForNvcc(StringRef source) { return source.ends_with(".cu"); }

Expected<std::vector<HostCompiler::Unit>> HostCompiler::unitsOf(ArrayRef<ExecutableJob> jobs) const {
  std::vector<Unit> units;
  std::set<std::string> common;
  for (const ExecutableJob &job : jobs) {
    for (const std::string &source : job.common)
      if (common.insert(source).second)
        units.push_back({source});
    bool isFull = true;
    size_t bytes = 0;
    for (const std::string &source : job.sources) {
      Expected<std::string> text = read(source);
      if (!text)
        return text.takeError();
      bytes += text->size();
      if (isFull || bytes > kUnitBytes || isForNvcc(source)) {
        units.emplace_back();
        bytes = text->size();
      }
      isFull = isForNvcc(source);
      units.back().push_back(source);
    }
  }
  return units;
}

Error HostCompiler::compile(const Unit &unit) {
  std::vector<std::string> texts;
  for (const std::string &source : unit) {
    Expected<std::string> text = read(source);
    if (!text)
      return text.takeError();
    texts.insert(texts.end(), {source, std::move(*text)});
  }
  std::string object = objectOf(unit);
  bool isCuda = isForNvcc(unit.front());
  std::vector<std::string> command = isCuda ? nvccCommand(unit.front(), object) : compileCommand(unit, object);
  // Which architectures; the folders, which the environment stands for, must not count.
  std::string architectures;
  for (int64_t architecture : isCuda ? toolchain.architectures : std::vector<int64_t>())
    architectures += " " + std::to_string(architecture);
  const std::string headersHash = headers.hashOf(unit);
  SmallVector<StringRef> parts{environmentHash, architectures, headersHash};
  llvm::append_range(parts, texts);
  std::string key = hashParts(parts);
  if (cache.fetch(key, object))
    return Error::success();
  if (Error error = run(group, command, join(unit, ", ")))
    return error;
  cache.store(key, object);
  return Error::success();
}

namespace {
/// Work that threads take in turns, and its first failure.
struct WorkQueue {
  std::mutex mutex;
  std::condition_variable changed;
  size_t taken = 0;           ///< units
  size_t done = 0, total = 0; ///< files
  std::vector<Error> failures;
};
} // namespace

/// Tells how far `queue` is whenever a second has passed; returns when all is done.
static void reportProgress(WorkQueue &queue, const CompileListener &listener) {
  bool said = false;
  std::unique_lock<std::mutex> lock(queue.mutex);
  while (!queue.changed.wait_for(lock, std::chrono::seconds(1), [&] { return queue.done == queue.total; })) {
    listener.tellProgress("compiling " + std::to_string(queue.done) + "/" + std::to_string(queue.total) + " files");
    said = true;
  }
  if (said)
    listener.tellProgress("");
}

Error HostCompiler::compileAll(ArrayRef<Unit> units) {
  WorkQueue queue;
  for (const Unit &unit : units)
    queue.total += unit.size();
  auto work = [&] {
    std::unique_lock<std::mutex> lock(queue.mutex);
    while (queue.taken < units.size()) {
      const Unit &unit = units[queue.taken++];
      lock.unlock();
      Error error = compile(unit);
      lock.lock();
      queue.done += unit.size();
      if (error) {
        // What nobody has begun is not begun any more.
        for (; queue.taken < units.size(); ++queue.taken)
          queue.done += units[queue.taken].size();
        queue.failures.push_back(std::move(error));
      }
      queue.changed.notify_all();
    }
  };
  std::vector<std::thread> threads(std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), units.size()));
  for (std::thread &thread : threads)
    thread = std::thread(work);
  reportProgress(queue, listener);
  for (std::thread &thread : threads)
    thread.join();
  if (queue.failures.empty())
    return Error::success();
  // The first is enough: the others are of the same kind.
  for (Error &other : MutableArrayRef(queue.failures).drop_front())
    consumeError(std::move(other));
  return std::move(queue.failures.front());
}

Error HostCompiler::link(const ExecutableJob &job, ArrayRef<Unit> units) {
  std::vector<std::string> command = {toolchain.compiler, "-fopenmp", "-o", job.output};
  for (const Unit &unit : units)
    if (is_contained(job.sources, unit.front()) || is_contained(job.common, unit.front()))
      command.push_back(objectOf(unit));
  append_range(command, toolchain.programLibraries());
  if (toolchain.isForGpu()) // shared libraries of the toolkit, where they lie
    for (const std::string &library : toolchain.cudaLibraries)
      if (StringRef(library).contains(".so"))
        command.push_back("-Wl,-rpath," + sys::path::parent_path(library).str());
  append_range(command, toolchain.linkFlags);
  return run(group, command, "linking " + sys::path::filename(job.output).str());
}

/// Another version of a compiler is another file, also where a link of the same name leads to it.
static std::string identityOf(const std::string &compiler) {
  SmallString<256> path;
  sys::fs::real_path(compiler, path);
  sys::fs::file_status status;
  sys::fs::status(path, status);
  return (path + " " + Twine(status.getSize()) + " " +
          Twine(status.getLastModificationTime().time_since_epoch().count()))
      .str();
}

Error HostCompiler::build(ArrayRef<ExecutableJob> jobs) {
  Expected<std::vector<Unit>> units = unitsOf(jobs);
  if (!units)
    return units.takeError();

  std::string identity = identityOf(toolchain.compiler);
  if (toolchain.isForGpu()) {
    identity += " " + identityOf(toolchain.nvcc);
    for (const char *flag : kNvccFlags)
      identity += std::string(" ") + flag;
  }
  environmentHash = hashParts({identity, join(compileFlags(toolchain), " "), sys::getHostCPUName()});
  if (Error error = compileAll(*units))
    return error;
  for (const ExecutableJob &job : jobs)
    if (Error error = link(job, *units))
      return error;
  cache.prune(kCacheBytes);
  return Error::success();
}
