// SPDX-License-Identifier: BSD-2-Clause
// Child processes that talk in lines over stdin and stdout, and a folder that goes away, for end-to-end tests.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace mrc::test {

class Process {
 public:
  Process(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) ::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no test leaves a poller behind
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      for (const auto& variable : environment) ::putenv(const_cast<char*>(variable.c_str()));
      std::vector<char*> argv;
      for (auto& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~Process() {
    kill(SIGKILL);
    wait();
    ::close(to_);
    ::close(from_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void say(const std::string& line) {
    const std::string text = line + "\n";
    if (::write(to_, text.data(), text.size()) < 0) return;
  }
  /// The next line; "(timeout)" or "(end)" if none comes.
  std::string hear(int ms = 20000) {
    for (;;) {
      if (const auto end = buffer_.find('\n'); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return line;
      }
      pollfd ready{from_, POLLIN, 0};
      if (::poll(&ready, 1, ms) <= 0) return "(timeout)";
      char chunk[4096];
      const auto n = ::read(from_, chunk, sizeof chunk);
      if (n <= 0) return "(end)";
      buffer_.append(chunk, static_cast<std::size_t>(n));
    }
  }
  std::string ask(const std::string& line, int ms = 20000) {
    say(line);
    return hear(ms);
  }
  void kill(int signal) {
    if (pid_ > 0) ::kill(pid_, signal);
  }
  /// Exit status, or 128 + signal.
  int wait() {
    if (pid_ <= 0) return status_;
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// Whether it ended within `ms`.
  bool ended(int ms) {
    for (; ms >= 0; ms -= 10) {
      siginfo_t info{};
      if (pid_ <= 0) return true;
      if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0)
        return true;
      ::usleep(10000);
    }
    return false;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1, status_ = -1;
  std::string buffer_;
};

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/mrc-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// CPU time of a process in seconds.
inline double cpu_seconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  text.erase(0, text.rfind(')') + 2);
  double ticks = 0;
  std::size_t at = 0;
  for (int field = 3; field <= 15; ++field) {
    const auto end = text.find(' ', at);
    if (field >= 14) ticks += std::stod(text.substr(at, end - at));
    at = end + 1;
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace mrc::test
