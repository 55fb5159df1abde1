// TemporaryFolder: a folder of a test's own, gone when the test is over.
#ifndef HYC_TEST_RUNTIME_TEMPORARY_FOLDER_H_
#define HYC_TEST_RUNTIME_TEMPORARY_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hyc-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(*this / name, std::ios::binary) << content;
    return *this / name;
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(*this / name, std::ios::binary).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

#endif  // HYC_TEST_RUNTIME_TEMPORARY_FOLDER_H_
