// What the kernel, programs and libraries of this host tell.
#include "facts.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/available_memory.h"
#include "base/secret.h"
#include "hycrt/options.h"
#include "hycrt/printable.h"
#include "processes.h"

extern char **environ;

namespace hyccheck {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kSets[] = {"avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve"};
constexpr const char *kPrefixes[] = {"NCCL_", "UCX_", "OMP_", "HYC_", "CUDA_VISIBLE_DEVICES="};

// What a command, which is none of a user's words, says; empty where it fails.
std::string outputOf(const std::string &command) {
  FILE *const pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe)
    return "";
  std::string text;
  char buffer[4096];
  for (size_t count; text.size() < (1 << 20) && (count = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    text.append(buffer, count);
  }
  return pclose(pipe) == 0 ? text : "";
}

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty())
      lines.push_back(hycrt::printable(line));
  }
  return lines;
}

// The value behind "name : value" of the first such line.
std::string fieldOf(const char *file, const std::string &name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, name.size(), name) != 0)
      continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : hycrt::printable(line.substr(begin));
  }
  return "";
}

std::string sumOfThisExecutable() {
  std::ifstream stream("/proc/self/exe", std::ios::binary);
  hycrt::Sha256 sum;
  char buffer[1 << 16];
  while (stream.read(buffer, sizeof buffer), stream.gcount() > 0)
    sum.add(buffer, static_cast<size_t>(stream.gcount()));
  return sum.finish();
}

std::vector<std::string> instructionSets() {
  std::string flags = fieldOf("/proc/cpuinfo", "flags");
  if (flags.empty())
    flags = fieldOf("/proc/cpuinfo", "Features");
  std::istringstream stream(flags);
  std::vector<std::string> found;
  for (std::string flag; stream >> flag;) {
    if (std::find(std::begin(kSets), std::end(kSets), flag) != std::end(kSets))
      found.push_back(flag);
  }
  return found;
}

Disk diskOf(const std::string &folder) {
  struct statvfs about{};
  if (statvfs(folder.c_str(), &about) != 0)
    return {folder, 0, 0};
  const auto block = static_cast<int64_t>(about.f_frsize);
  return {folder, static_cast<int64_t>(about.f_bavail) * block, static_cast<int64_t>(about.f_blocks) * block};
}

// Of the folder where ranks work, and of the one for what is temporary where that is on another disk.
std::vector<Disk> disksOf(const std::string &folder) {
  const char *const told = std::getenv("TMPDIR");
  const std::string temporary = told && *told ? told : "/tmp";
  struct stat first{}, second{};
  const bool isSame =
      stat(folder.c_str(), &first) == 0 && stat(temporary.c_str(), &second) == 0 && first.st_dev == second.st_dev;
  if (isSame)
    return {diskOf(folder)};
  return {diskOf(folder), diskOf(temporary)};
}

std::string ncclVersion() {
  void *const library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return "";
  int version = 0;
  const auto get = reinterpret_cast<int (*)(int *)>(dlsym(library, "ncclGetVersion"));
  if (!get || get(&version) != 0)
    return "of no version that it tells";
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

int64_t limitOf(__rlimit_resource_t resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_max == RLIM_INFINITY)
    return -1;
  return static_cast<int64_t>(limit.rlim_max);
}

// A token is nobody's business.
std::vector<std::string> variables() {
  std::vector<std::string> found;
  for (char **variable = environ; *variable; ++variable) {
    const std::string assignment = *variable, name = assignment.substr(0, assignment.find('='));
    const auto isOf = [&](const std::string &prefix) { return assignment.compare(0, prefix.size(), prefix) == 0; };
    if (!std::any_of(std::begin(kPrefixes), std::end(kPrefixes), isOf))
      continue;
    found.push_back(name == "HYC_TOKEN" ? name + "=(set)" : hycrt::printable(assignment));
  }
  std::sort(found.begin(), found.end());
  return found;
}

} // namespace

Facts collectFacts(const std::string &folder) {
  Facts facts;
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  facts.name = hycrt::printable(name);
  utsname system{};
  uname(&system);
  facts.kernel = std::string(system.sysname) + " " + system.release + " " + system.machine;
  facts.cpu = fieldOf("/proc/cpuinfo", "model name");
  facts.tool = sumOfThisExecutable();
  facts.sets = instructionSets();
  facts.cores = hycrt::defaultThreads(1);
  struct sysinfo about{};
  if (sysinfo(&about) == 0)
    facts.memory = static_cast<int64_t>(about.totalram) * about.mem_unit;
  facts.available = std::min(hycrt::availableMemory(), facts.memory);
  facts.disks = disksOf(folder);
  for (const char *compiler : {"c++", "g++", "clang++"}) {
    const std::vector<std::string> lines = linesOf(outputOf(std::string(compiler) + " --version"));
    if (!lines.empty() && facts.compiler.empty())
      facts.compiler = lines[0];
  }
  facts.gpus = linesOf(outputOf("nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader"));
  facts.nccl = ncclVersion();
  facts.descriptors = limitOf(RLIMIT_NOFILE);
  facts.processes = limitOf(RLIMIT_NPROC);
  facts.locked = limitOf(RLIMIT_MEMLOCK);
  facts.variables = variables();
  facts.running = findProcesses();
  return facts;
}

json toJson(const Facts &facts) {
  json disks = json::array(), running = json::array();
  for (const Disk &disk : facts.disks) {
    disks.push_back({{"folder", disk.folder}, {"free_bytes", disk.free}, {"total_bytes", disk.total}});
  }
  for (const Process &process : facts.running) {
    running.push_back({{"pid", process.pid},
                       {"parent", process.parent},
                       {"seconds", process.seconds},
                       {"what", process.what},
                       {"left", process.isLeft}});
  }
  return {{"name", facts.name},
          {"kernel", facts.kernel},
          {"cpu", facts.cpu},
          {"tool_sha256", facts.tool},
          {"instruction_sets", facts.sets},
          {"cores", facts.cores},
          {"memory_bytes", facts.memory},
          {"available_bytes", facts.available},
          {"disks", disks},
          {"compiler", facts.compiler},
          {"gpus", facts.gpus},
          {"nccl", facts.nccl},
          {"most_descriptors", facts.descriptors},
          {"most_processes", facts.processes},
          {"most_locked_bytes", facts.locked},
          {"variables", facts.variables},
          {"running", running}};
}

hycrt::Result<Facts> factsFrom(const json &json) {
  Facts facts;
  try {
    json.at("name").get_to(facts.name);
    json.at("kernel").get_to(facts.kernel);
    json.at("cpu").get_to(facts.cpu);
    json.at("tool_sha256").get_to(facts.tool);
    json.at("instruction_sets").get_to(facts.sets);
    json.at("cores").get_to(facts.cores);
    json.at("memory_bytes").get_to(facts.memory);
    json.at("available_bytes").get_to(facts.available);
    for (const auto &disk : json.at("disks")) {
      facts.disks.push_back({disk.at("folder"), disk.at("free_bytes"), disk.at("total_bytes")});
    }
    json.at("compiler").get_to(facts.compiler);
    json.at("gpus").get_to(facts.gpus);
    json.at("nccl").get_to(facts.nccl);
    json.at("most_descriptors").get_to(facts.descriptors);
    json.at("most_processes").get_to(facts.processes);
    json.at("most_locked_bytes").get_to(facts.locked);
    json.at("variables").get_to(facts.variables);
    for (const auto &one : json.at("running")) {
      facts.running.push_back({one.at("pid"), one.at("parent"), one.at("seconds"), one.at("what"), one.at("left")});
    }
  } catch (const nlohmann::json::exception &error) {
    return hycrt::dataError(std::string("what it says is no host's: ") + error.what());
  }
  return facts;
}

std::string findProgram(const std::string &name) {
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path() / name;
  if (access(beside.c_str(), X_OK) == 0)
    return beside;
  const char *const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path found = fs::path(folder) / name;
    if (access(found.c_str(), X_OK) == 0 && fs::is_regular_file(found, ignored))
      return found;
  }
  return "";
}

int openMpThreads() {
  char folder[] = "/tmp/hyc-check-XXXXXX";
  if (!mkdtemp(folder))
    return 0;
  const std::string program = std::string(folder) + "/program";
  std::ofstream(program + ".cpp") << "#include <cstdio>\nint main() {\n  int threads = 0;\n"
                                     "#pragma omp parallel reduction(+ : threads)\n  threads += 1;\n"
                                     "  std::printf(\"%d\", threads);\n}\n";
  int threads = 0;
  for (const char *compiler : {"c++", "g++", "clang++"}) {
    if (threads > 0)
      break;
    threads = std::atoi(
        outputOf(std::string(compiler) + " -std=c++17 -fopenmp " + program + ".cpp -o " + program + " && " + program)
            .c_str());
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return threads;
}

} // namespace hyccheck
