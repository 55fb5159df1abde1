// Listing a folder, and receiving one beside its place before anything of it is put there.
#include "folder_copy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/secret.h"
#include "hycrt/token.h"
#include "ssh.h"

namespace hycrun {
namespace {

namespace fs = std::filesystem;
using hycrt::FileDescriptor;
using hycrt::Result;
using hycrt::Status;

constexpr char kGreeting[] = "hyc-run folder 1";
constexpr size_t kMostFiles = 100000, kMostLineBytes = 2 * PATH_MAX, kSumDigits = 64;
constexpr int64_t kMostBytes = int64_t{1} << 50;
constexpr size_t kChunkBytes = 1 << 20;

// Relative, and without "." and ".." in it, or what would end a line.
bool isInside(const std::string& path) {
  if (path.empty() || path.size() >= PATH_MAX || path[0] == '/') return false;
  if (path.find_first_of(std::string("\n\0", 2)) != std::string::npos) return false;
  const fs::path parts = path;
  return std::none_of(parts.begin(), parts.end(),
                      [](const fs::path& part) { return part.empty() || part == "." || part == ".."; });
}

Result<CopiedFile> describeFile(const std::string& folder, const std::string& path) {
  const std::string whole = folder + "/" + path;
  Result<FileDescriptor> file = hycrt::openForReading(whole);
  if (!file.ok()) return file.status();
  Result<int64_t> bytes = hycrt::fileSize(*file, whole);
  if (!bytes.ok()) return bytes.status();
  hycrt::Sha256 sum;
  std::string chunk(kChunkBytes, '\0');
  for (int64_t at = 0; at < *bytes;) {
    const int64_t count = std::min(*bytes - at, static_cast<int64_t>(kChunkBytes));
    HYCRT_RETURN_IF_ERROR(hycrt::readAt(*file, whole, chunk.data(), count, at));
    sum.add(chunk.data(), static_cast<size_t>(count));
    at += count;
  }
  struct stat info{};
  const bool isProgram = fstat(file->get(), &info) == 0 && (info.st_mode & S_IXUSR) != 0;
  return CopiedFile{path, *bytes, isProgram, sum.finish()};
}

// A plain file in folders that are none by a link, which is still what the row says.
bool isThere(const std::string& folder, const CopiedFile& row) {
  fs::path place = folder;
  std::error_code ignored;
  for (const fs::path& part : fs::path(row.path)) {
    if (!fs::is_directory(fs::symlink_status(place, ignored))) return false;
    place /= part;
  }
  if (!fs::is_regular_file(fs::symlink_status(place, ignored))) return false;
  if (fs::file_size(place, ignored) != static_cast<uintmax_t>(row.bytes)) return false;
  const Result<CopiedFile> now = describeFile(folder, row.path);
  return now.ok() && now->sum == row.sum;
}

std::string encodeFile(const CopiedFile& file) {
  return "file " + std::to_string(file.bytes) + (file.isProgram ? " x " : " - ") + file.sum + " " + file.path + "\n";
}

// Of a line of the listing; false where it is none.
bool parseFile(const std::string& line, CopiedFile* file) {
  std::istringstream words(line);
  std::string name, mode;
  if (!(words >> name >> file->bytes >> mode >> file->sum) || name != "file" || words.get() != ' ') return false;
  std::getline(words, file->path);
  file->isProgram = mode == "x";
  const bool isSum =
      file->sum.size() == kSumDigits && file->sum.find_first_not_of("0123456789abcdef") == std::string::npos;
  return isSum && file->bytes >= 0 && file->bytes <= kMostBytes && isInside(file->path);
}

// The ledger of `folder`; no rows where there is none, or it is damaged.
std::vector<CopiedFile> readLedger(const std::string& folder) {
  std::ifstream stream(folder + "/" + kCopyLedger);
  std::vector<CopiedFile> rows;
  std::string line;
  if (!std::getline(stream, line) || line != kGreeting) return {};
  for (CopiedFile row; std::getline(stream, line) && rows.size() < kMostFiles;) {
    if (!parseFile(line, &row)) return {};
    rows.push_back(row);
  }
  return rows;
}

Status writeLedger(const std::string& folder, const std::vector<CopiedFile>& rows) {
  const std::string path = folder + "/" + kCopyLedger, partial = hycrt::partialName(path, "hyc-" + hycrt::makeName());
  std::ofstream stream(partial);
  stream << kGreeting << "\n";
  for (const CopiedFile& row : rows) stream << encodeFile(row);
  stream.close();
  if (!stream || rename(partial.c_str(), path.c_str()) != 0) {
    return hycrt::errnoError("cannot write '" + path + "'", errno);
  }
  return {};
}

// Bytes of a descriptor, as lines and then as they are.
class Input {
 public:
  explicit Input(int fd) : fd_(fd) {}

  // False: it has ended, or the line is longer than any.
  bool line(std::string* text) {
    text->clear();
    for (;;) {
      if (at_ == held_ && !fill()) return false;
      const char byte = buffer_[at_++];
      if (byte == '\n') return true;
      text->push_back(byte);
      if (text->size() > kMostLineBytes) return false;
    }
  }
  // Some bytes, at most so many; 0: it has ended.
  size_t take(char* to, size_t most) {
    if (at_ == held_ && !fill()) return 0;
    const size_t count = std::min(most, held_ - at_);
    std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(at_), count, to);
    at_ += count;
    return count;
  }

 private:
  bool fill() {
    ssize_t count = 0;
    do count = read(fd_, buffer_.data(), buffer_.size());
    while (count < 0 && errno == EINTR);
    at_ = 0;
    held_ = count > 0 ? static_cast<size_t>(count) : 0;
    return count > 0;
  }

  const int fd_;
  std::vector<char> buffer_ = std::vector<char>(1 << 16);
  size_t at_ = 0, held_ = 0;
};

class Receiver {
 public:
  Receiver(int input, std::FILE* output) : input_(input), output_(output) {}
  ~Receiver() {
    std::error_code ignored;
    if (!staging_.empty()) fs::remove_all(staging_, ignored);
  }

  Status run() {
    HYCRT_RETURN_IF_ERROR(readListing());
    for (size_t i = 0; i < listing_.files.size(); ++i) {
      if (!isThere(listing_.folder, listing_.files[i])) wanted_.push_back(i);
    }
    if (wanted_.empty()) return say("has");
    HYCRT_RETURN_IF_ERROR(checkPlace());
    HYCRT_RETURN_IF_ERROR(makeStaging());
    std::string wants = "wants";
    for (size_t index : wanted_) wants += " " + std::to_string(index);
    HYCRT_RETURN_IF_ERROR(say(wants));
    for (size_t index : wanted_) HYCRT_RETURN_IF_ERROR(receive(listing_.files[index]));
    HYCRT_RETURN_IF_ERROR(isNew_ ? publish() : replace());
    return say("done");
  }

 private:
  Status say(const std::string& line) {
    const bool isSaid = std::fprintf(output_, "%s\n", line.c_str()) > 0 && std::fflush(output_) == 0;
    return isSaid ? Status() : hycrt::errnoError("cannot answer", errno);
  }

  Status readListing() {
    const Status none =
        hycrt::usageError(std::string(kReceiveFlag) +
                          " is for hyc-run itself, which starts it on other hosts; this is none of its folders");
    std::string line;
    if (!input_.line(&line) || line != kGreeting || !input_.line(&line)) return none;
    if (line.compare(0, 8, "folder /") != 0) return none;
    listing_.folder = line.substr(7);
    std::set<std::string> paths;
    for (CopiedFile file; input_.line(&line);) {
      if (line == "go") return {};
      if (!parseFile(line, &file) || !paths.insert(file.path).second || paths.size() > kMostFiles) return none;
      listing_.files.push_back(file);
    }
    return none;
  }

  // Whether what is there may give way: nothing is, or all that is in the way came by here and is unchanged.
  Status checkPlace() {
    const std::string& folder = listing_.folder;
    std::error_code failed;
    const fs::file_status status = fs::symlink_status(folder, failed);
    isNew_ = status.type() == fs::file_type::not_found;
    if (isNew_) return {};
    if (!fs::is_directory(status)) return hycrt::dataError("'" + folder + "' is there on this host, and is no folder");
    isNew_ = fs::is_empty(folder, failed);
    if (failed) return hycrt::errnoError("cannot read '" + folder + "'", failed.value());
    if (isNew_) return {};
    for (const CopiedFile& row : readLedger(folder)) ledger_.emplace(row.path, row);
    for (size_t index : wanted_) {
      const std::string& path = listing_.files[index].path;
      if (!fs::exists(fs::symlink_status(folder + "/" + path, failed))) continue;
      const auto rows = ledger_.equal_range(path);
      if (std::any_of(rows.first, rows.second, [&](const auto& row) { return isThere(folder, row.second); })) continue;
      return hycrt::dataError("'" + folder + "/" + path + "' of this host is another than that of hyc-run's, and " +
                              (rows.first == rows.second ? "was not copied there by hyc-run" : "was changed since") +
                              "; move '" + folder + "' away, which hyc-run (--copy-out) leaves as it is");
    }
    if (!ledger_.empty()) return {};
    return hycrt::dataError("'" + folder +
                            "' of this host has other things in it, and was not copied there by hyc-run; "
                            "move it away, which hyc-run (--copy-out) leaves as it is");
  }

  // Beside its place, so that files can be renamed into it.
  Status makeStaging() {
    const fs::path folder(listing_.folder);
    std::error_code failed;
    fs::create_directories(folder.parent_path(), failed);
    if (failed) return hycrt::errnoError("cannot make '" + folder.parent_path().string() + "'", failed.value());
    const std::string path = hycrt::partialName(listing_.folder, "hyc-" + hycrt::makeName());
    if (mkdir(path.c_str(), 0700) != 0) return hycrt::errnoError("cannot make '" + path + "'", errno);
    staging_ = path;
    return {};
  }

  Status receive(const CopiedFile& file) {
    const std::string path = staging_ + "/" + file.path;
    std::error_code failed;
    fs::create_directories(fs::path(path).parent_path(), failed);
    if (failed) return hycrt::errnoError("cannot make the folder of '" + path + "'", failed.value());
    Result<FileDescriptor> to = hycrt::createNew(path);
    if (!to.ok()) return to.status();
    hycrt::Sha256 sum;
    std::string chunk(kChunkBytes, '\0');
    for (int64_t at = 0; at < file.bytes;) {
      const size_t most = static_cast<size_t>(std::min(file.bytes - at, static_cast<int64_t>(kChunkBytes)));
      const size_t count = input_.take(chunk.data(), most);
      if (count == 0) return {hycrt::StatusCode::kPeerLost, "hyc-run is gone, and has sent only a part of its folder"};
      HYCRT_RETURN_IF_ERROR(hycrt::writeAt(*to, path, chunk.data(), static_cast<int64_t>(count), at));
      sum.add(chunk.data(), count);
      at += static_cast<int64_t>(count);
    }
    if (sum.finish() != file.sum)
      return hycrt::dataError("'" + file.path + "' has arrived with other bytes than it left");
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(to->get(), (file.isProgram ? 0777 : 0666) & ~mask) == 0) return {};
    return hycrt::errnoError("cannot change the mode of '" + path + "'", errno);
  }

  Status publish() {
    HYCRT_RETURN_IF_ERROR(writeLedger(staging_, listing_.files));
    const mode_t mask = umask(0);
    umask(mask);
    chmod(staging_.c_str(), 0777 & ~mask);
    if (rename(staging_.c_str(), listing_.folder.c_str()) != 0) {
      return hycrt::errnoError("cannot give '" + staging_ + "' the name '" + listing_.folder + "'", errno);
    }
    staging_.clear();
    return {};
  }

  // While files change their place the ledger knows both.
  Status replace() {
    std::vector<CopiedFile> both = listing_.files;
    for (const auto& [path, row] : ledger_) both.push_back(row);
    HYCRT_RETURN_IF_ERROR(writeLedger(listing_.folder, both));
    for (size_t index : wanted_) {
      const std::string &path = listing_.files[index].path, place = listing_.folder + "/" + path;
      std::error_code failed;
      fs::create_directories(fs::path(place).parent_path(), failed);
      fs::rename(staging_ + "/" + path, place, failed);
      if (failed) return hycrt::errnoError("cannot put '" + place + "' in its place", failed.value());
    }
    for (const CopiedFile& file : listing_.files) ledger_.erase(file.path);
    std::error_code ignored;
    for (const auto& [path, row] : ledger_) {
      if (isThere(listing_.folder, row)) fs::remove(listing_.folder + "/" + path, ignored);
    }
    return writeLedger(listing_.folder, listing_.files);
  }

  Input input_;
  std::FILE* const output_;
  FolderListing listing_;
  std::vector<size_t> wanted_;                     // of its files
  std::multimap<std::string, CopiedFile> ledger_;  // of the folder that is there
  bool isNew_ = false;
  std::string staging_;
};

}  // namespace

Result<FolderListing> listFolder(const hycrt::Manifest& manifest) {
  std::set<std::string> paths{"manifest.json"};
  for (const hycrt::ManifestRank& rank : manifest.ranks) paths.insert(rank.program);
  for (const std::string& made : manifest.madeFiles) {
    if (access((manifest.folder + "/" + made).c_str(), F_OK) == 0) paths.insert(made);
  }
  FolderListing listing{absolutePath(manifest.folder), {}};
  for (const std::string& path : paths) {
    if (!isInside(path)) return hycrt::dataError("'" + manifest.folder + "' lists '" + path + "', which is not in it");
    Result<CopiedFile> file = describeFile(manifest.folder, path);
    if (!file.ok()) return file.status();
    listing.files.push_back(std::move(*file));
  }
  return listing;
}

std::string encodeListing(const FolderListing& listing) {
  std::string text = std::string(kGreeting) + "\nfolder " + listing.folder + "\n";
  for (const CopiedFile& file : listing.files) text += encodeFile(file);
  return text + "go\n";
}

Status receiveFolder(int input, std::FILE* output) { return Receiver(input, output).run(); }

}  // namespace hycrun
