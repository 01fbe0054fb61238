// SPDX-License-Identifier: BSD-2-Clause
// Starts the switch as a daemon from inside somebody else's process: whatever that process has open, blocked, pinned
// or preloaded must not reach the daemon, and the process itself must not notice a child.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "mrc/control/runtime.hpp"

extern char** environ;

namespace mrc::control {
namespace {

/// fork() without atfork handlers and without an exit signal: the application's SIGCHLD handler and its wait() never
/// see our child. Between this and exec only async-signal-safe calls are made.
pid_t quiet_fork() {
  return static_cast<pid_t>(::syscall(SYS_clone, 0UL, 0UL, 0UL, 0UL, 0UL));
}

struct ExecReport {
  pid_t pid = 0;
  int error = 0;
};

void close_from(int first) {
  if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) return;
  for (int fd = first; fd < 65536; ++fd) ::close(fd);
}

void reset_process() {
  for (int number = 1; number < 65; ++number) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // A rank is often bound to one core; the switch serves them all. The kernel cuts this down to the cpuset.
  cpu_set_t all;
  ::memset(&all, 0xff, sizeof all);
  ::sched_setaffinity(0, sizeof all, &all);
  ::umask(077);
}

[[noreturn]] void become_daemon(char* const* argv, char* const* env, int null, int log, int report) {
  // Away from 0..3 first, whatever the application had closed.
  null = ::fcntl(null, F_DUPFD_CLOEXEC, 10);
  log = ::fcntl(log, F_DUPFD_CLOEXEC, 10);
  report = ::fcntl(report, F_DUPFD_CLOEXEC, 10);
  ::dup2(null, 0);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::dup3(report, 3, O_CLOEXEC);
  close_from(4);
  reset_process();
  ExecReport answer{::getpid(), 0};
  if (::chdir("/") != 0) answer.error = errno;
  ::execve(argv[0], argv, env);
  answer.error = errno;
  [[maybe_unused]] const auto n = ::write(3, &answer, sizeof answer);
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (auto& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

std::vector<std::string> program_candidates(const std::string& program, const std::string& provider_directory) {
  if (!program.empty()) return {program};
  std::vector<std::string> out;
  if (!provider_directory.empty()) {
    // Beside the provider; a build tree (prov/mrc and test/<layer> beside tools); <prefix>/lib[/<arch>]/libfabric.
    for (const char* place : {"/mrc-switch", "/../../tools/mrc-switch/mrc-switch", "/../tools/mrc-switch/mrc-switch",
                              "/../bin/mrc-switch", "/../../bin/mrc-switch", "/../../../bin/mrc-switch"}) {
      out.push_back(provider_directory + place);
    }
  }
#ifdef MRC_LIBEXECDIR
  out.push_back(MRC_LIBEXECDIR "/mrc-switch");
#endif
#ifdef MRC_BINDIR
  out.push_back(MRC_BINDIR "/mrc-switch");
#endif
  return out;
}

Result<std::string> find_program(const std::string& program, const std::string& provider_directory) {
  std::string tried;
  for (const auto& candidate : program_candidates(program, provider_directory)) {
    struct stat st {};
    if (::stat(candidate.c_str(), &st) == 0 && S_ISREG(st.st_mode) && ::access(candidate.c_str(), X_OK) == 0) {
      // Absolute, because the daemon changes its directory before it starts.
      char resolved[PATH_MAX];
      return std::string(::realpath(candidate.c_str(), resolved) != nullptr ? resolved : candidate.c_str());
    }
    tried += (tried.empty() ? "" : ", ") + candidate;
  }
  return fail(ENOENT, fmt::format("cannot find mrc-switch (tried {}): install it, or name it in FI_MRC_SWITCH",
                                  tried.empty() ? "nothing" : tried));
}

Result<std::uint32_t> start_daemon(const std::vector<std::string>& arguments, const std::string& log_path) {
  if (::getauxval(AT_SECURE) != 0) {
    return fail(EPERM, "a set-uid process does not start mrc-switch: start it by hand (mrc-switch --stay)");
  }
  auto strings = arguments;
  auto argv = pointers(strings);
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    // What is preloaded into the application (an MPI profiler, a sanitizer) is not meant for the switch.
    if (!std::string_view(*variable).starts_with("LD_PRELOAD=")) variables.emplace_back(*variable);
  }
  auto env = pointers(variables);

  Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  Fd log(::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!null || !log) return fail(errno, fmt::format("cannot open the log file {}: {}", log_path, ::strerror(errno)));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(errno, fmt::format("cannot make a pipe: {}", ::strerror(errno)));
  Fd reader(ends[0]), writer(ends[1]);

  sigset_t all, before;  // no handler of the application may run in the child
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = quiet_fork();
  if (child == 0) {
    ::setsid();
    const pid_t daemon = quiet_fork();
    if (daemon == 0) become_daemon(argv.data(), env.data(), null.get(), log.get(), writer.get());
    const ExecReport report{daemon, daemon < 0 ? errno : 0};
    [[maybe_unused]] const auto n = ::write(writer.get(), &report, sizeof report);
    ::_exit(0);
  }
  const int fork_error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0)
    return fail(fork_error, fmt::format("cannot start {}: fork: {}", arguments[0], ::strerror(fork_error)));
  writer.reset();
  while (::waitpid(child, nullptr, __WALL) < 0 && errno == EINTR) {
  }
  pid_t pid = 0;
  int error = 0;
  for (ExecReport report;;) {  // ends when exec closed the last writer
    const auto n = ::read(reader.get(), &report, sizeof report);
    if (n < 0 && errno == EINTR) continue;
    if (n != static_cast<ssize_t>(sizeof report)) break;
    pid = report.pid;
    if (report.error != 0) error = report.error;
  }
  if (error != 0 || pid <= 0) {
    return fail(error != 0 ? error : ECHILD,
                fmt::format("cannot start {}: {}", arguments[0], ::strerror(error != 0 ? error : ECHILD)));
  }
  return static_cast<std::uint32_t>(pid);
}

}  // namespace mrc::control
