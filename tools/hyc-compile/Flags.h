// Flags: the command line of hyc-compile, made from the table of settings.
#ifndef HYC_TOOLS_HYC_COMPILE_FLAGS_H
#define HYC_TOOLS_HYC_COMPILE_FLAGS_H

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
  hyc::CompileOptions read() const;

  /// The plan that the model's place names the other of; empty: nothing is compared.
  const std::string &compared() const { return compare; }
  bool explains() const { return explain; }
  bool printsPage() const { return page; }
  bool printsSettings() const { return settings; }

private:
  struct Flag {
    const hyc::SettingRow *row;
    std::unique_ptr<llvm::cl::Option> option;
    std::function<hyc::SettingValue()> value;
  };
  Flag make(const hyc::SettingRow &row);

  std::map<hyc::SettingCategory, std::unique_ptr<llvm::cl::OptionCategory>> categories;
  std::deque<std::string> helps; ///< options only point to their texts
  std::vector<Flag> flags;
  std::unique_ptr<llvm::cl::opt<std::string>> input;
  llvm::cl::opt<std::string> compare;
  llvm::cl::opt<bool> explain, page, settings;
};

#endif // HYC_TOOLS_HYC_COMPILE_FLAGS_H
