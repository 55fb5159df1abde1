// What a run shows on a terminal, of which this test is one: it draws what it is sent and looks at the screen. Without
// a terminal there are plain lines.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cctype>
#include <csignal>
#include <cstdlib>

#include "compiled_folder.h"
#include "run_command.h"
#include "temporary_folder.h"

namespace {

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

constexpr Layout kOne{1, 1, 1};

// As much of a terminal as is asked of it: lines that end, and ESC [ n A, K, J and m. It never scrolls away.
class Screen {
 public:
  void take(const std::string& bytes) {
    for (const char byte : bytes) take(byte);
  }
  const std::vector<std::string>& lines() const { return lines_; }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }
  int drawn() const { return ups_; }

 private:
  void take(char byte) {
    if (!escape_.empty()) {
      escape_ += byte;
      if (escape_.size() > 2 && std::isalpha(static_cast<unsigned char>(byte))) obey();
    } else if (byte == '\x1b') {
      escape_ = byte;
    } else if (byte == '\r') {
      column_ = 0;
    } else if (byte == '\n') {
      if (++row_ == lines_.size()) lines_.emplace_back();
    } else {
      lines_[row_].resize(std::max(lines_[row_].size(), column_ + 1), ' ');
      lines_[row_][column_++] = byte;
    }
  }
  void obey() {
    const size_t count = std::max(1, std::atoi(escape_.c_str() + 2));
    const char what = escape_.back();
    escape_.clear();
    if (what == 'm') return;
    if (what == 'A') {
      ASSERT_LE(count, row_) << "above the first line";
      row_ -= count;
      ++ups_;
    } else if (what == 'J' || what == 'K') {
      lines_[row_].resize(column_);
      if (what == 'J') lines_.resize(row_ + 1);
    } else {
      ADD_FAILURE() << "an escape sequence that ends in " << what;
    }
  }

  std::vector<std::string> lines_{""};
  size_t row_ = 0, column_ = 0;
  int ups_ = 0;
  std::string escape_;
};

class Terminal : public testing::Test {
 protected:
  // Starts the command with this, from now on `terminal`, as its terminal.
  static pid_t start(const std::vector<std::string>& words, winsize size, const Environment& environment,
                     int* terminal) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const pid_t child = forkpty(terminal, nullptr, nullptr, &size);
    if (child != 0) return child;
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C", 1);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  // To its end.
  static Screen show(const std::vector<std::string>& words, unsigned short rows, unsigned short columns,
                     const Environment& environment = {}) {
    int terminal = -1;
    const pid_t child = start(words, {rows, columns, 0, 0}, environment, &terminal);
    Screen screen;
    char bytes[4096];
    for (pollfd polled{terminal, POLLIN, 0}; poll(&polled, 1, 60000) > 0;) {
      const ssize_t count = read(terminal, bytes, sizeof bytes);
      if (count <= 0) break;  // the other side is closed
      screen.take({bytes, static_cast<size_t>(count)});
    }
    close(terminal);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << screen.text();
    return screen;
  }
  static int countOf(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }

  CompiledFolder folder_{kOne};
};

TEST_F(Terminal, ShowsARunInPlace) {
  const Screen screen = show(folder_.command({"--steps", "40"}), 24, 80, {{"MINIATURE_PAUSE", "15"}});
  const std::string text = screen.text();
  EXPECT_GT(screen.drawn(), 2) << text;
  EXPECT_EQ(countOf(text, "step  "), 1) << text;
  EXPECT_CONTAINS(text, "step  40/40  ####");
  EXPECT_CONTAINS(text, "100.0 %   left 0:00:00");
  EXPECT_CONTAINS(text, "loss  ");
  EXPECT_CONTAINS(text, "tokens/s   memory ");
  EXPECT_CONTAINS(text, "memory in MiB");  // the table at the end lies below, on a line of its own
}

// By Ctrl-S, and never told to go on: nothing is drawn there, and the run waits for no reader where it is to end.
TEST_F(Terminal, ThatIsStoppedDoesNotKeepARunFromItsEnd) {
  int terminal = -1;
  const pid_t child = start(folder_.command({"--steps", "1000000000"}), {24, 80, 0, 0}, {}, &terminal);
  Screen screen;
  char bytes[4096];
  while (screen.drawn() < 2) {
    const ssize_t count = read(terminal, bytes, sizeof bytes);
    ASSERT_GT(count, 0) << screen.text();
    screen.take({bytes, static_cast<size_t>(count)});
  }
  const int other = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(other, 0);
  ASSERT_EQ(tcflow(other, TCOOFF), 0);
  usleep(300000);
  kill(child, SIGTERM);
  int status = -1;
  pid_t ended = 0;
  for (int i = 0; i < 1500 && (ended = waitpid(child, &status, WNOHANG)) == 0; ++i) usleep(10000);
  if (ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  close(other);
  close(terminal);
  EXPECT_EQ(ended, child) << "it had to be killed";
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 143);
}

TEST_F(Terminal, WithLittleRoomHasOneLine) {
  const Screen screen = show(folder_.command({"--steps", "10"}), 5, 60);
  EXPECT_EQ(screen.drawn(), 0);
  EXPECT_EQ(countOf(screen.text(), "10/10 loss "), 1) << screen.text();
  EXPECT_EQ(countOf(screen.text(), "9/10"), 0) << screen.text();
}

TEST_F(Terminal, ThatIsNoneHasALineAStep) {
  const CommandResult piped = runCommand(folder_.command({"--steps", "10"}));
  EXPECT_EQ(countOf(piped.output, "\x1b"), 0);
  EXPECT_EQ(countOf(piped.output, "grad norm"), 10) << piped.output;
  const Screen dumb = show(folder_.command({"--steps", "10"}), 24, 80, {{"TERM", "dumb"}});
  EXPECT_EQ(countOf(dumb.text(), "grad norm"), 10) << dumb.text();
}

}  // namespace
