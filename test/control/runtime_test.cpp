// SPDX-License-Identifier: BSD-2-Clause
// The runtime folder's rules, the lock, the search for the executable, and what a started daemon inherits.
#include "mrc/control/runtime.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "mrc/control/client.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::control;
namespace fs = std::filesystem;

namespace {

struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/mrc-runtime-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the runtime folder is per uid and network namespace, whatever TMPDIR says") {
  const auto before = default_socket();
  ::setenv("TMPDIR", "/elsewhere", 1);
  ::setenv("XDG_RUNTIME_DIR", "/elsewhere", 1);
  CHECK(default_socket().value() == before.value());
  struct stat ns {};
  REQUIRE(::stat("/proc/self/ns/net", &ns) == 0);
  CHECK(*before == "/tmp/mrc-" + std::to_string(::geteuid()) + "-" + std::to_string(ns.st_ino) + "/switch-v1.sock");
}

TEST_CASE("a runtime folder is made private and only a private one is taken") {
  Folder root;
  const std::string path = root.path + "/run";
  ::umask(0);
  REQUIRE(open_runtime_folder(path, ::geteuid()));
  ::umask(022);
  struct stat st {};
  REQUIRE(::stat(path.c_str(), &st) == 0);
  CHECK((st.st_mode & 07777) == 0700);
  CHECK(open_runtime_folder(path, ::geteuid()));  // again

  SECTION("open to others") {
    for (const mode_t mode : {0770, 0707, 0710, 0701, 0777}) {
      REQUIRE(::chmod(path.c_str(), mode) == 0);
      const auto refused = open_runtime_folder(path, ::geteuid());
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == EPERM);
      CHECK(refused.error().text.find("chmod 700") != std::string::npos);
    }
  }
  SECTION("another owner") {
    const auto refused = open_runtime_folder(path, ::geteuid() + 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == EPERM);
    CHECK(refused.error().text.find("belongs to uid") != std::string::npos);
  }
  SECTION("a symbolic link") {
    const std::string link = root.path + "/link";
    REQUIRE(::symlink(path.c_str(), link.c_str()) == 0);
    const auto refused = open_runtime_folder(link, ::geteuid());
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == EPERM);
  }
  SECTION("a file") {
    const std::string file = root.path + "/file";
    std::ofstream(file) << "x";
    CHECK_FALSE(open_runtime_folder(file, ::geteuid()));
  }
  SECTION("nowhere") {
    CHECK_FALSE(open_runtime_folder(root.path + "/no/such", ::geteuid()));
  }
}

TEST_CASE("one process at a time has the lock, and links are not followed") {
  Folder root;
  Fd folder(::open(root.path.c_str(), O_RDONLY | O_DIRECTORY));
  auto first = try_lock_file(folder.get(), "lock");
  REQUIRE(first);
  REQUIRE(*first);
  auto second = try_lock_file(folder.get(), "lock");
  REQUIRE(second);
  CHECK_FALSE(*second);
  first->reset();
  auto third = try_lock_file(folder.get(), "lock");
  REQUIRE(third);
  CHECK(*third);
  REQUIRE(::symlink("/tmp/target-of-nobody", (root.path + "/evil").c_str()) == 0);
  CHECK_FALSE(try_lock_file(folder.get(), "evil"));
  CHECK_FALSE(fs::exists("/tmp/target-of-nobody"));
}

TEST_CASE("the executable is looked for where it is named, beside the provider, and installed") {
  Folder root;
  CHECK(program_candidates("/named", root.path) == std::vector<std::string>{"/named"});
  const auto missing = find_program(root.path + "/none", "");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().text.find("FI_MRC_SWITCH") != std::string::npos);
  fs::create_directories(root.path + "/tools/mrc-switch");
  fs::create_directories(root.path + "/prov/mrc");
  const std::string program = root.path + "/tools/mrc-switch/mrc-switch";
  std::ofstream(program) << "#!/bin/sh\n";
  CHECK_FALSE(find_program(program, ""));  // not executable
  ::chmod(program.c_str(), 0755);
  const auto found = find_program("", root.path + "/prov/mrc");
  REQUIRE(found);
  CHECK(*found == program);
}

TEST_CASE("a daemon inherits nothing of the application") {
  Folder root;
  const std::string script = root.path + "/daemon", out = root.path + "/out";
  std::ofstream(script)
      << "#!/bin/sh\nexec 2>&1\n"
         "{ echo sid $(ps -o sid= -p $$) $$;\n"
         // By the shell alone: around the start of a program it blocks all signals, which that program could still see.
         "  while read -r k v more; do case $k in SigBlk:|SigIgn:|Cpus_allowed:) printf '%s\\t%s\\n' $k $v;; esac; done"
         " < /proc/$$/status\n"
         "  for f in /proc/$$/fd/*; do echo fd ${f##*/}; done; umask; pwd; echo preload=$LD_PRELOAD; }"
         " > "
      << out << ".new\nmv " << out << ".new " << out << "\n";
  ::chmod(script.c_str(), 0755);

  // An application with everything in disorder.
  const int inherited = ::open("/dev/null", O_RDONLY);
  const int high = ::fcntl(inherited, F_DUPFD, 700);
  ::signal(SIGUSR1, SIG_IGN);
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  cpu_set_t cpus, one;
  ::sched_getaffinity(0, sizeof cpus, &cpus);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &cpus)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ::sched_setaffinity(0, sizeof one, &one);
  const std::string allowed_alone = [] {
    std::istringstream status(slurp("/proc/self/status"));
    std::string line;
    while (std::getline(status, line) && !line.starts_with("Cpus_allowed:")) {
    }
    return line;
  }();
  static volatile sig_atomic_t children;
  children = 0;
  ::signal(SIGCHLD, [](int) { children = children + 1; });
  const auto pid = start_daemon({script}, root.path + "/log");
  ::sched_setaffinity(0, sizeof cpus, &cpus);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::signal(SIGUSR1, SIG_DFL);
  ::close(inherited);
  ::close(high);
  REQUIRE(pid);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child that we could see
  CHECK(children == 0);
  ::signal(SIGCHLD, SIG_DFL);
  for (int i = 0; i < 500 && !fs::exists(out); ++i) ::usleep(10000);
  const std::string report = slurp(out);
  INFO(report);
  std::istringstream lines(report);
  std::string line;
  int fds = 0;
  bool umask_seen = false, root_seen = false;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string key, value, more;
    words >> key >> value >> more;
    if (key == "sid") CHECK(value != more);  // of the intermediate child's session
    if (key == "SigBlk:") CHECK(value == "0000000000000000");
    if (key == "SigIgn:") CHECK((std::stoul(value, nullptr, 16) >> (SIGUSR1 - 1) & 1) == 0);
    if (key == "Cpus_allowed:" && CPU_COUNT(&cpus) > 1) CHECK(line != allowed_alone);
    if (key == "fd") {
      ++fds;
      CHECK(std::stoi(value) < 20);  // 0..2, and what the shell itself opened
    }
    umask_seen |= key == "0077";
    root_seen |= key == "/";
    if (key.starts_with("preload")) CHECK(key == "preload=");
  }
  CHECK(fds >= 3);
  CHECK(umask_seen);
  CHECK(root_seen);
}

TEST_CASE("what cannot be executed is said in words") {
  Folder root;
  const auto failed = start_daemon({root.path + "/nothing"}, root.path + "/log");
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == ENOENT);
  const auto no_log = start_daemon({"/bin/true"}, root.path + "/no/log");
  REQUIRE_FALSE(no_log);
  CHECK(no_log.error().text.find("log file") != std::string::npos);
}

TEST_CASE("a switch that ends at once is reported with its last words, at once") {
  Folder root;
  const std::string script = root.path + "/broken";
  std::ofstream(script) << "#!/bin/sh\necho an earlier line\necho out of luck >&2\nexit 3\n";
  ::chmod(script.c_str(), 0755);
  EnsureOptions options;
  options.program = script;
  options.runtime_root = root.path;
  const Tick start = monotonic_now();
  const auto failed = connect_or_start(options);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().text.find("out of luck") != std::string::npos);
  CHECK(monotonic_now() - start < seconds(5));

  options.autostart = false;
  const auto off = connect_or_start(options);
  REQUIRE_FALSE(off);
  CHECK(off.error().text.find("autostart is off") != std::string::npos);

  // A starter that hangs: the others give up in time.
  std::ofstream(script) << "#!/bin/sh\nsleep 2\n";
  options.autostart = true;
  options.timeout = milliseconds(300);
  const auto late = connect_or_start(options);
  REQUIRE_FALSE(late);
  CHECK(late.error().code == ETIMEDOUT);
}
