// Interruption: on Ctrl-C, Ctrl-\, kill, hang-up or a reader of the output that has gone, ends the host compilers that
// are running and removes what is half written, then ends this process with 128 + the signal.
#ifndef HYC_DRIVER_INTERRUPTION_H
#define HYC_DRIVER_INTERRUPTION_H

#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace hyc {

/// What was ignored when the program was started: by nohup, which has it outlive a terminal, or by a shell, whose
/// background a Ctrl-C is not meant for. Made before a library takes signals, and restored after that.
class IgnoredSignals {
public:
  IgnoredSignals();
  void restore() const;

private:
  std::vector<int> signals;
};

/// Alive while something could be left behind: a program that wants Ctrl-C to leave nothing makes one around
/// hyc::compile, which itself only names what it makes. One at a time.
class Interruption {
public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption &) = delete;
  Interruption &operator=(const Interruption &) = delete;

  /// Names a folder or file to remove, with what is in it; called before it is created.
  static void addPath(const std::string &path);
  static void forgetPath(const std::string &path);
  /// Names a folder to remove if nothing else has come to lie in it.
  static void addFolder(const std::string &path);
  static void forgetFolder(const std::string &path);
  static void addChild(pid_t child);
  static void forgetChild(pid_t child);

private:
  std::thread watcher;
};

} // namespace hyc

#endif // HYC_DRIVER_INTERRUPTION_H
