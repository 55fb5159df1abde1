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

std::string HostCompiler::objectOf(StringRef source) const {
  std::string name = source.str();
  std::replace(name.begin(), name.end(), '/', '.');
  return objectFolder + "/" + name + ".o";
}

std::vector<std::string> HostCompiler::compileCommand(StringRef source, StringRef object) const {
  std::vector<std::string> command = {toolchain.compiler};
  append_range(command, compileFlags(toolchain));
  for (const std::string &folder : toolchain.includeDirs)
    command.push_back("-I" + folder);
  // The staging folder's name must reach no object, or the cache would never hit.
  command.push_back("-ffile-prefix-map=" + sourceFolder + "=src");
  command.insert(command.end(), {"-c", sourceFolder + "/" + source.str(), "-o", object.str()});
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

Error HostCompiler::compile(StringRef source) {
  auto text = MemoryBuffer::getFile(sourceFolder + "/" + source);
  if (!text)
    return ioError("cannot read generated '" + source + "'", text.getError());
  std::string object = objectOf(source);
  bool isCuda = source.ends_with(".cu");
  std::vector<std::string> command = isCuda ? nvccCommand(source, object) : compileCommand(source, object);
  // Which architectures; the folders, which the environment stands for, must not count.
  std::string architectures;
  for (int64_t architecture : isCuda ? toolchain.architectures : std::vector<int64_t>())
    architectures += " " + std::to_string(architecture);
  std::string key = hashParts({environmentHash, source, architectures, (*text)->getBuffer()});
  if (cache.fetch(key, object))
    return Error::success();
  if (Error error = run(group, command, source))
    return error;
  cache.store(key, object);
  return Error::success();
}

namespace {
/// Work that threads take in turns, and its first failure.
struct WorkQueue {
  std::mutex mutex;
  std::condition_variable changed;
  size_t taken = 0, done = 0, total = 0;
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

Error HostCompiler::compileAll(ArrayRef<std::string> sources) {
  WorkQueue queue;
  queue.total = sources.size();
  auto work = [&] {
    std::unique_lock<std::mutex> lock(queue.mutex);
    while (queue.taken < queue.total) {
      const std::string &source = sources[queue.taken++];
      lock.unlock();
      Error error = compile(source);
      lock.lock();
      ++queue.done;
      if (error) {
        // What nobody has begun is not begun any more.
        queue.done += queue.total - queue.taken;
        queue.taken = queue.total;
        queue.failures.push_back(std::move(error));
      }
      queue.changed.notify_all();
    }
  };
  std::vector<std::thread> threads(std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), sources.size()));
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

Error HostCompiler::link(const ExecutableJob &job) {
  std::vector<std::string> command = {toolchain.compiler, "-fopenmp", "-o", job.output};
  for (const std::string &source : job.sources)
    command.push_back(objectOf(source));
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
  std::set<std::string> sources;
  for (const ExecutableJob &job : jobs)
    sources.insert(job.sources.begin(), job.sources.end());
  std::vector<std::string> ordered(sources.begin(), sources.end());

  std::vector<std::string> folders = toolchain.headerDirs;
  folders.push_back(sourceFolder);
  std::string identity = identityOf(toolchain.compiler);
  if (toolchain.isForGpu()) {
    identity += " " + identityOf(toolchain.nvcc);
    for (const char *flag : kNvccFlags)
      identity += std::string(" ") + flag;
  }
  environmentHash =
      hashParts({identity, join(compileFlags(toolchain), " "), sys::getHostCPUName(), hashHeaders(folders)});
  if (Error error = compileAll(ordered))
    return error;
  for (const ExecutableJob &job : jobs)
    if (Error error = link(job))
      return error;
  cache.prune(kCacheBytes);
  return Error::success();
}
