// Sums of files, and the ledger as JSON.
#include "Folder/FileLedger.h"

#include "hyc/Support/DriverError.h"
#include "hyc/Support/JsonFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <limits>

using namespace llvm;
using namespace hyc;
namespace fs = std::filesystem;

static constexpr uint64_t kMostBytes = uint64_t(64) << 20;
static constexpr int64_t kFormatVersion = 1;

/// Whether `path` stays inside the folder that it is relative to.
static bool staysInside(const std::string &path) {
  fs::path parts(path);
  if (path.empty() || parts.is_absolute())
    return false;
  for (const fs::path &part : parts)
    if (part == ".." || part == "." || part.empty())
      return false;
  return true;
}

Expected<FileLedger::Row> FileLedger::measure(const std::string &path) {
  Expected<sys::fs::file_t> file = sys::fs::openNativeFileForRead(path);
  if (!file)
    return ioError("cannot read '" + path + "'", errorToErrorCode(file.takeError()));
  BLAKE3 sum;
  Row row{0, ""};
  std::vector<char> buffer(1 << 20);
  for (;;) {
    Expected<size_t> count = sys::fs::readNativeFile(*file, buffer);
    if (!count) {
      sys::fs::closeFile(*file);
      return ioError("cannot read '" + path + "'", errorToErrorCode(count.takeError()));
    }
    if (*count == 0)
      break;
    sum.update(StringRef(buffer.data(), *count));
    row.bytes += *count;
  }
  sys::fs::closeFile(*file);
  row.sum = toHex(sum.final(), /*LowerCase=*/true);
  return row;
}

Error FileLedger::add(const std::string &folder, const std::string &path) {
  Expected<Row> row = measure(folder + "/" + path);
  if (!row)
    return row.takeError();
  files[path].insert(*row);
  return Error::success();
}

void FileLedger::addAll(const FileLedger &other) {
  for (const auto &[path, rows] : other.files)
    files[path].insert(rows.begin(), rows.end());
}

bool FileLedger::isUnchanged(const std::string &folder, const std::string &path) const {
  auto entry = files.find(path);
  std::error_code error;
  if (entry == files.end() || !fs::is_regular_file(fs::symlink_status(folder + "/" + path, error)))
    return false;
  Expected<Row> now = measure(folder + "/" + path);
  if (!now) {
    consumeError(now.takeError()); // what cannot be read is not known to be hyc's
    return false;
  }
  return entry->second.count(*now) != 0;
}

std::set<std::string> FileLedger::paths() const {
  std::set<std::string> result;
  for (const auto &[path, rows] : files)
    result.insert(path);
  return result;
}

std::string FileLedger::toJson() const {
  std::string text;
  raw_string_ostream os(text);
  json::OStream json(os, 2);
  json.object([&] {
    json.attribute("format_version", kFormatVersion);
    json.attributeArray("files", [&] {
      for (const auto &[path, rows] : files)
        for (const Row &row : rows)
          json.object([&, &path = path] {
            json.attribute("path", path);
            json.attribute("bytes", static_cast<int64_t>(row.bytes));
            json.attribute("blake3", row.sum);
          });
    });
  });
  os << "\n";
  return text;
}

Expected<FileLedger> FileLedger::read(const std::string &folder) {
  FileLedger ledger;
  std::string path = folder + "/" + kLedgerName;
  std::error_code error;
  fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status))
    return ledger;
  if (!fs::is_regular_file(status))
    return makeError(ExitCode::Usage,
                     "'" + path + "' is no file of hyc's; move it away, or name another folder with -o");
  Error failed = readJsonFile("-o", path, kMostBytes, [&](const JsonObjectReader &object) -> Error {
    int64_t version = 0;
    if (Error error = object.checkKeys({"format_version", "files"}))
      return error;
    if (Error error = object.read("format_version", version, kFormatVersion, kFormatVersion))
      return error;
    return object.readObjects("files", [&](const JsonObjectReader &row) -> Error {
      std::string name, sum;
      int64_t bytes = 0;
      if (Error error = row.checkKeys({"path", "bytes", "blake3"}))
        return error;
      if (Error error = row.read("path", name))
        return error;
      if (Error error = row.read("bytes", bytes, 0, std::numeric_limits<int64_t>::max()))
        return error;
      if (Error error = row.read("blake3", sum))
        return error;
      if (!staysInside(name))
        return row.fail("path", "is \"" + name + "\", expected one inside the folder");
      ledger.files[name].insert({static_cast<uint64_t>(bytes), sum});
      return Error::success();
    });
  });
  if (failed)
    return failed;
  return ledger;
}
