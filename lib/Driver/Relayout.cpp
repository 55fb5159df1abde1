// From folders and a profile to plans that are compared.
#include "hyc/Driver/Relayout.h"

#include "Fit/LayoutChoice.h"
#include "Folder/CommandFile.h"
#include "hyc/Driver/Compile.h"
#include "hyc/Planner/Layout.h"
#include "hyc/Support/JsonFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;
using namespace hyc;

static constexpr uint64_t kMostManifestBytes = uint64_t(256) << 20, kMostProfileBytes = kMostManifestBytes;

namespace {
/// A folder that is or could be run.
struct Compiled {
  CompileOptions asked;   ///< by its command
  CompileOptions options; ///< with its plan and batch
  uint64_t planHash = 0;
  int64_t microBatch = 1, gradAccum = 1;
};

/// What one is planned to be.
struct Planned {
  Layout layout;
  double seconds = 0;
  uint64_t hash = 0;
  std::string shares;
};
} // namespace

static Error readManifest(const std::string &folder, Compiled &compiled) {
  return readJsonFile("replan", folder + "/manifest.json", kMostManifestBytes,
                      [&](const JsonObjectReader &root) -> Error {
                        std::string hash;
                        if (Error error = root.read("plan_hash", hash))
                          return error;
                        if (StringRef(hash).getAsInteger(16, compiled.planHash))
                          return root.fail("plan_hash", "expected 16 hexadecimal digits");
                        Expected<JsonObjectReader> batch = root.child("batch");
                        if (!batch)
                          return batch.takeError();
                        if (Error error = batch->read("micro_batch", compiled.microBatch, 1, kMaxBatch))
                          return error;
                        return batch->read("grad_accum", compiled.gradAccum, 1, kMaxBatch);
                      });
}

template <typename T> static void decide(Setting<T> &setting, T value, const std::string &by) {
  setting.offer(std::move(value), Origin::Flag, by);
}

/// `measured` is what the rates are corrected by beside what the command says.
static Expected<Compiled> readFolder(const std::string &folder, const std::string &measured) {
  Expected<CompileOptions> command = readCommand(folder);
  if (!command)
    return command.takeError();
  Compiled compiled;
  compiled.asked = std::move(*command);
  if (Error error = readManifest(folder, compiled))
    return error;
  std::vector<std::string> files = *compiled.asked.measuredFiles;
  SmallString<256> path(measured); // of a command that may be run elsewhere
  sys::fs::make_absolute(path);
  files.push_back(std::string(path));
  decide(compiled.asked.measuredFiles, files, "--measured");
  CompileOptions &options = compiled.options = compiled.asked;
  decide<std::string>(options.planFile, folder + "/plan.json", "plan.json");
  options.globalBatch = 0;
  decide(options.microBatch, compiled.microBatch, "manifest.json: micro_batch");
  decide(options.gradAccum, compiled.gradAccum, "manifest.json: grad_accum");
  return compiled;
}

/// A profile tells of the programs that were measured, which have to be those of the folder.
static Error checkProfile(const RelayoutRequest &request, const Compiled &compiled) {
  return readJsonFile("measured", request.measured, kMostProfileBytes, [&](const JsonObjectReader &root) -> Error {
    std::string hash;
    if (!root.has("plan_hash"))
      return Error::success();
    if (Error error = root.read("plan_hash", hash))
      return error;
    uint64_t measured = 0;
    if (StringRef(hash).getAsInteger(16, measured))
      return root.fail("plan_hash", "expected 16 hexadecimal digits");
    if (measured == compiled.planHash)
      return Error::success();
    return root.fail("plan_hash", "the profile is of programs with plan " + hash + ", but those of '" + request.folder +
                                      "' have plan " + utohexstr(compiled.planHash, true, 16) + "; give what hyc-run " +
                                      request.folder + " --profile FILE writes");
  });
}

static Error failureOf(const CompileResult &result) {
  for (const CompileDiagnostic &diagnostic : result.diagnostics)
    if (diagnostic.severity == CompileDiagnostic::Error)
      return makeError(result.code, diagnostic.str());
  return makeError(result.code, result.error);
}

static Expected<Planned> plan(const CompileOptions &options, const Toolchain &toolchain,
                              const CompileListener &listener) {
  CompileListener progress;
  progress.progressed = listener.progressed;
  CompileResult result = planOnly(options, toolchain, progress);
  if (!result)
    return failureOf(result);
  CompileOptions planned = options;
  static_cast<Plan &>(planned) = result.plan;
  std::string shares;
  for (int64_t share : result.batchShares)
    shares += (shares.empty() ? "" : ",") + std::to_string(share);
  return Planned{layoutOf(planned), result.seconds, result.planHash, shares};
}

/// Planned as its programs are; they, and not others, are what ranks run.
static Expected<Planned> planFolder(const std::string &folder, const Compiled &compiled, const Toolchain &toolchain,
                                    const CompileListener &listener) {
  Expected<Planned> planned = plan(compiled.options, toolchain, listener);
  if (!planned)
    return planned.takeError();
  planned->layout.microBatch = compiled.microBatch;
  planned->layout.gradAccum = compiled.gradAccum;
  if (planned->hash != compiled.planHash)
    return makeError(ExitCode::Data, "'" + folder + "' was compiled from another model than '" +
                                         compiled.options.input + "' is now, or by another hyc; compile it again");
  if (!(planned->seconds > 0))
    return makeError(ExitCode::Data, "the plan of '" + folder + "' has no estimate of a step's time to compare by");
  return planned;
}

//===----------------------------------------------------------------------===//
// What it is compared with
//===----------------------------------------------------------------------===//

/// Nobody has said it.
static void forget(const SettingRow &row, CompileOptions &options) {
  CompileOptions defaults;
  std::visit([&](auto *setting) { *setting = *std::get<std::decay_t<decltype(setting)>>(row.in(defaults)); },
             row.in(options));
}

/// What cannot be searched, or goes with what is not searched.
static bool staysAsItIs(const VariedSetting &varied, CompileOptions &options) {
  if (varied.setting == memberOfPlan<&Plan::schedule>)
    return true;
  if (varied.setting == memberOfPlan<&Plan::recompute>)
    return *options.partitionActivations;
  return valueOf(varied.row().in(options)) == SettingValue(std::string(wordOf(OffloadPlace::Nvme)));
}

static Expected<CompileOptions> openLayout(const std::string &folder, const Compiled &compiled, const Layout &present) {
  CompileOptions options = compiled.asked;
  if (!options.planFile->empty())
    return usageError("'" + folder + "' was compiled with --plan " + *options.planFile +
                      ", which decides the layout; compile it without, or give folders that were compiled beforehand");
  if (*options.recompute == RecomputeMode::Auto)
    return usageError("'" + folder +
                      "' was compiled with --recompute auto, which no search tries; give folders that were compiled "
                      "beforehand");
  if (!leavesLayoutOpen(options))
    for (const VariedSetting &varied : getVariedSettings())
      if (!staysAsItIs(varied, options))
        forget(varied.row(), options);
  options.ranks = std::vector<int64_t>();
  decide(options.ranks, std::vector<int64_t>{present.ranks()}, "--ranks");
  options.globalBatch = 0;
  decide(options.globalBatch, present.globalBatch(), "--global-batch");
  return options;
}

static Error lookForLayout(const RelayoutRequest &request, const Compiled &compiled, const Planned &present,
                           const Toolchain &toolchain, const CompileListener &listener, Relayout &result) {
  Expected<CompileOptions> open = openLayout(request.folder, compiled, present.layout);
  if (!open)
    return open.takeError();
  open->planSeconds = request.seconds;
  Expected<Planned> found = plan(*open, toolchain, listener);
  if (!found)
    return found.takeError();
  result.found = {flagsOf(found->layout), found->seconds};
  result.batchShares = found->shares;
  result.arguments = argumentsOf(*open);
  return Error::success();
}

static Error compareFolders(const RelayoutRequest &request, const Planned &present, const Toolchain &toolchain,
                            const CompileListener &listener, Relayout &result) {
  for (const std::string &folder : request.alternatives) {
    Expected<Compiled> compiled = readFolder(folder, request.measured);
    if (!compiled)
      return compiled.takeError();
    Expected<Planned> planned = planFolder(folder, *compiled, toolchain, listener);
    if (!planned)
      return planned.takeError();
    const Layout &layout = planned->layout;
    if (layout.globalBatch() != present.layout.globalBatch() || layout.ranks() != present.layout.ranks())
      return makeError(ExitCode::Data, "'" + folder + "' has " + Twine(layout.ranks()) + " ranks and " +
                                           Twine(layout.globalBatch()) + " samples a step, expected " +
                                           Twine(present.layout.ranks()) + " and " +
                                           Twine(present.layout.globalBatch()) + ", as '" + request.folder + "' has");
    if (!result.folder.empty() && planned->seconds >= result.found.seconds)
      continue;
    result.found = {flagsOf(layout), planned->seconds};
    result.folder = folder;
  }
  return Error::success();
}

Expected<Relayout> hyc::relayout(const RelayoutRequest &request, const Toolchain &toolchain,
                                 const CompileListener &listener) {
  Expected<Compiled> compiled = readFolder(request.folder, request.measured);
  if (!compiled)
    return compiled.takeError();
  if (Error error = checkProfile(request, *compiled))
    return error;
  Expected<Planned> present = planFolder(request.folder, *compiled, toolchain, listener);
  if (!present)
    return present.takeError();
  Relayout result;
  result.present = {flagsOf(present->layout), present->seconds};
  Error error = request.alternatives.empty() ? lookForLayout(request, *compiled, *present, toolchain, listener, result)
                                             : compareFolders(request, *present, toolchain, listener, result);
  if (error)
    return error;
  result.isBetter = result.found.seconds < result.present.seconds * (1 - request.margin / 100);
  return result;
}

//===----------------------------------------------------------------------===//
// As text
//===----------------------------------------------------------------------===//

std::string hyc::replannedFolder(const std::string &folder) { return StringRef(folder).rtrim('/').str() + ".replan"; }

static std::string milliseconds(double seconds) {
  std::string text;
  raw_string_ostream(text) << format("%.3g ms", seconds * 1e3);
  return text;
}

static std::string percent(double part) {
  std::string text;
  raw_string_ostream(text) << format("%.3g %%", part * 100);
  return text;
}

/// A word of a command line as a shell takes it.
static std::string quoted(StringRef word) {
  if (!word.empty() &&
      word.find_if([](char c) { return !isAlnum(c) && !StringRef("-_=+./,:@%").contains(c); }) == StringRef::npos)
    return word.str();
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string Relayout::describe(const RelayoutRequest &request) const {
  double gain = 1 - found.seconds / present.seconds;
  std::string text = "by " + request.measured + " a step of this layout (" + present.layout + ") takes about " +
                     milliseconds(present.seconds) + "\n";
  std::string other = found.layout + ", about " + milliseconds(found.seconds);
  if (!isBetter)
    return text + "nothing is better by " + percent(request.margin / 100) + ": " +
           (found.layout == present.layout ? "this one is the best that was found" : "the best is " + other) + "\n";
  text += "better by " + percent(gain) + ": " + other + "\n";
  if (!folder.empty())
    return text + "its programs are in " + folder + "\n";
  text += "compile it with:\n  hyc-compile";
  for (const std::string &word : arguments)
    text += " " + quoted(word);
  text += " -o " + quoted(replannedFolder(request.folder)) + "\n";
  if (!batchShares.empty())
    text += "and run it with --batch-shares " + batchShares + ", since ranks are not equally fast\n";
  return text;
}

std::string Relayout::toJson(const RelayoutRequest &request) const {
  json::Array words;
  for (const std::string &word : arguments)
    words.push_back(json::fixUTF8(word));
  std::string text;
  raw_string_ostream(text) << json::Value(json::Object{{"layout", found.layout},
                                                       {"is_better", isBetter},
                                                       {"folder", json::fixUTF8(folder)},
                                                       {"arguments", std::move(words)},
                                                       {"batch_shares", batchShares},
                                                       {"text", json::fixUTF8(describe(request))}});
  return text;
}
