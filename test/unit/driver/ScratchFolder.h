// ScratchFolder: an empty folder for one test, removed with it.
#ifndef HYC_TEST_UNIT_DRIVER_SCRATCHFOLDER_H
#define HYC_TEST_UNIT_DRIVER_SCRATCHFOLDER_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

class ScratchFolder {
public:
  ScratchFolder() {
    std::string model = (std::filesystem::temp_directory_path() / "hyc-test-XXXXXX").string();
    folder = mkdtemp(model.data());
  }
  ~ScratchFolder() { std::filesystem::remove_all(folder); }

  std::string path(const std::string &name = "") const { return name.empty() ? folder : folder + "/" + name; }
  void write(const std::string &name, const std::string &text) const { std::ofstream(path(name)) << text; }
  std::string read(const std::string &name) const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }
  bool has(const std::string &name) const { return std::filesystem::exists(path(name)); }

private:
  std::string folder;
};

#endif // HYC_TEST_UNIT_DRIVER_SCRATCHFOLDER_H
