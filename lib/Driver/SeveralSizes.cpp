// A compilation for each size, into a folder that is put in its place as a whole.
#include "SeveralSizes.h"

#include "hyc/Driver/OptionChecks.h"
#include "hyc/Support/DriverError.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace hyc;
using llvm::Error;
using llvm::Expected;
using llvm::Twine;

static CompileOptions ofSize(const CompileOptions &options, int64_t ranks) {
  CompileOptions one = options;
  one.ranks = Setting<std::vector<int64_t>>(std::vector<int64_t>());
  one.ranks.offer({ranks}, options.ranks.getOrigin(), options.ranks.getSource());
  return one;
}

static std::string join(llvm::ArrayRef<int64_t> sizes) {
  std::string text;
  for (int64_t size : sizes)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text;
}

/// What is of one layout, or no folder.
static Error checkAlone(const CompileOptions &options) {
  EmitKind emit = emitOf(options);
  const char *given = emit < EmitKind::Account                 ? "--emit of a phase"
                      : !options.planFile->empty()             ? "--plan"
                      : !options.dumpFolder->empty()           ? "--dump-dir"
                      : *options.planCandidates > 0            ? "--plan-candidates"
                      : options.dp.getOrigin() == Origin::Flag ? "--dp"
                                                               : nullptr;
  std::set<int64_t> distinct(options.ranks->begin(), options.ranks->end());
  if (distinct.size() != options.ranks->size())
    return usageError("--ranks names a size twice: " + join(*options.ranks));
  if (given)
    return usageError(Twine("--ranks has ") + Twine(options.ranks->size()) + " sizes, " + join(*options.ranks) +
                      ", but " + given + " is for one; leave it out, or compile for one size");
  return Error::success();
}

/// Every size by itself, before anything is compiled: the first that does not go, and those that do.
static Error checkSizes(const CompileOptions &options) {
  std::vector<int64_t> fit;
  int64_t refused = 0;
  std::string why;
  ExitCode code = ExitCode::Usage;
  for (int64_t size : *options.ranks) {
    CompileOptions one = ofSize(options, size);
    Error error = settleOptions(one);
    if (!error && !one.globalBatch.isGiven())
      error = usageError("every size has to make the same steps; give the samples of one with --global-batch");
    if (!error && (one.globalBatch.getOrigin() == Origin::Derived || one.globalBatch.getOrigin() == Origin::Default))
      error = usageError("every size has to make the same steps, whose samples (" + one.globalBatch.getSource() +
                         ") would change with the ranks; give them with --global-batch");
    if (!error) {
      fit.push_back(size);
      continue;
    }
    llvm::handleAllErrors(std::move(error), [&](const DriverError &failure) {
      if (why.empty()) {
        why = failure.getMessage();
        code = failure.getCode();
        refused = size;
      }
    });
  }
  if (why.empty())
    return Error::success();
  return makeError(code, "for " + Twine(refused) + " of the ranks " + join(*options.ranks) + ": " + why +
                             (fit.empty() ? "" : "; sizes that go: " + join(fit)));
}

static std::string sizesManifest(llvm::ArrayRef<int64_t> sizes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "{\n  \"format_version\": 1,\n  \"sizes\": [";
  for (size_t i = 0; i < sizes.size(); ++i)
    os << (i ? ",\n    " : "\n    ") << "{\"ranks\": " << sizes[i] << ", \"folder\": \"ranks-" << sizes[i] << "\"}";
  os << "\n  ]\n}\n";
  return text;
}

static CompileResult failure(Error error) {
  CompileResult result;
  llvm::handleAllErrors(std::move(error), [&](const DriverError &failed) {
    result.code = failed.getCode();
    result.error = failed.getMessage();
  });
  return result;
}

/// Notes are of one size: what does nothing in it may do something in another.
static CompileListener tellingOfSize(const CompileListener &listener, int64_t ranks) {
  CompileListener telling = listener;
  if (listener.diagnosed)
    telling.diagnosed = [&listener, ranks](CompileDiagnostic told) {
      if (told.severity == CompileDiagnostic::Note)
        told.message = "for " + std::to_string(ranks) + " ranks: " + told.message;
      listener.diagnosed(told);
    };
  return telling;
}

CompileResult hyc::compileSizes(const CompileOptions &options, const Toolchain &toolchain,
                                const CompileListener &listener) {
  if (Error error = checkAlone(options))
    return failure(std::move(error));
  if (Error error = checkSizes(options))
    return failure(std::move(error));
  Expected<OutputFolder> folder = OutputFolder::open(shownFolder(options), inputsOf(options));
  if (!folder)
    return failure(folder.takeError());
  CompileResult all;
  for (int64_t size : *options.ranks) {
    CompileOptions one = ofSize(options, size);
    one.output = folder->staged("ranks-" + Twine(size));
    CompileResult result = compile(one, toolchain, tellingOfSize(listener, size));
    result.diagnostics.insert(result.diagnostics.begin(), all.diagnostics.begin(), all.diagnostics.end());
    result.summary = all.summary + result.summary;
    all = std::move(result);
    if (!all) {
      if (!all.error.empty())
        all.error = "for " + std::to_string(size) + " ranks: " + all.error;
      return all;
    }
  }
  if (emitOf(options) > EmitKind::Account)
    if (Error error = folder->write("manifest.json", sizesManifest(*options.ranks)))
      return failure(std::move(error));
  if (Error error = folder->commit())
    return failure(std::move(error));
  all.folder = shownFolder(options);
  return all;
}
