// Flags: the command line of hyc-compile, made from the table of settings.
#ifndef HYC_TOOLS_HYC_COMPILE_FLAGS_H
#define HYC_TOOLS_HYC_COMPILE_FLAGS_H

#include "hyc/Driver/Relayout.h"
#include "hyc/Plan/SettingTable.h"
#include "llvm/Support/CommandLine.h"

#include <deque>
#include <map>
#include <memory>

/// Registers a flag for each row that has one; reads them once the command line is parsed.
class Flags {
public:
  Flags();

  /// Flags that were not typed stay open: the plan file or the model may say them.
  /// The error names the first value that cannot be read.
  llvm::Expected<hyc::CompileOptions> read() const;

  /// The plan that the model's place names the other of; empty: nothing is compared.
  const std::string &compared() const { return compare; }
  /// Whether a folder's layout is asked about, and what is asked but by the settings.
  bool replans() const { return replan.getNumOccurrences() > 0; }
  hyc::RelayoutRequest relayoutRequest() const;
  bool replansForPrograms() const { return replanJson; }
  bool explains() const { return explain; }
  bool printsPage() const { return page; }
  bool printsSettings() const { return settings; }

private:
  struct Flag {
    const hyc::SettingRow *row;
    std::unique_ptr<llvm::cl::list<std::string>> words; ///< as they were typed
  };
  Flag make(const hyc::SettingRow &row);

  std::map<hyc::SettingCategory, std::unique_ptr<llvm::cl::OptionCategory>> categories;
  std::deque<std::string> helps; ///< options only point to their texts
  std::vector<Flag> flags;
  std::unique_ptr<llvm::cl::opt<std::string>> input;
  llvm::cl::opt<std::string> compare, replan;
  llvm::cl::list<std::string> replanWith;
  llvm::cl::opt<double> replanMargin;
  llvm::cl::opt<bool> replanJson, explain, page, settings;
};

#endif // HYC_TOOLS_HYC_COMPILE_FLAGS_H
