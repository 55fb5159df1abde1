// FileLedger: which files of a folder hyc-compile made, and what was in them (`files.json`). It is what tells a file of
// hyc's own, which the next compilation may replace, from one of the user's, or from one that the user has changed
// since.
//
//   {"format_version": 1, "files": [{"path": "bin/stage0", "bytes": 183256, "blake3": "0f3a…"}, …]}
//
// While a compilation puts its files in place, the ledger names what was there and what comes, so that one path may
// stand there twice: whenever that is cut off, every file is known by one of its rows.
#ifndef HYC_LIB_DRIVER_FOLDER_FILELEDGER_H
#define HYC_LIB_DRIVER_FOLDER_FILELEDGER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <set>
#include <string>

namespace hyc {

inline constexpr const char *kLedgerName = "files.json";

class FileLedger {
public:
  /// That of `folder`; an empty one where there is none. One that is damaged, or names paths outside of its folder, is
  /// an error.
  static llvm::Expected<FileLedger> read(const std::string &folder);

  /// Takes down `folder/path` as it is now.
  llvm::Error add(const std::string &folder, const std::string &path);
  void addAll(const FileLedger &other);

  bool lists(const std::string &path) const { return files.count(path) != 0; }
  /// Whether `folder/path` is a plain file, no link, that is still what one of its rows says.
  bool isUnchanged(const std::string &folder, const std::string &path) const;
  /// In ascending order, each once.
  std::set<std::string> paths() const;

  std::string toJson() const;

private:
  struct Row {
    uint64_t bytes;
    std::string sum; ///< BLAKE3 in hexadecimal digits
    bool operator<(const Row &other) const { return std::tie(bytes, sum) < std::tie(other.bytes, other.sum); }
  };
  std::map<std::string, std::set<Row>> files;

  static llvm::Expected<Row> measure(const std::string &path);
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_FOLDER_FILELEDGER_H
