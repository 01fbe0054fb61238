// SPDX-License-Identifier: BSD-2-Clause
// The layer's errors in words, and EAL as a quiet guest: no rights and no device needed.
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "datapath/port/process.hpp"
#include "mrc/port/port.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::port;
using Catch::Matchers::Contains;

namespace {

std::string open_error(const std::string& text) {
  const auto spec = parse_port(text);
  REQUIRE(spec);
  const auto port = builtin_layer().open(*spec);
  REQUIRE(!port);
  REQUIRE(port.error().code > 0);
  return port.error().text;
}

std::string memif_error(const MemifOptions& options) {
  const auto port = builtin_layer().open_memif(options);
  REQUIRE(!port);
  return port.error().text;
}

std::vector<std::string> handlers() {
  std::vector<std::string> list;
  for (int number = 1; number < 32; ++number) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    list.push_back(std::to_string(reinterpret_cast<std::uintptr_t>(action.sa_handler)));
  }
  return list;
}

}  // namespace

TEST_CASE("EAL starts as a quiet guest", "[layer]") {
  cpu_set_t before{}, after{};
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  const auto handlers_before = handlers();
  const DescriptorSnapshot descriptors;
  // stderr goes to a file for the while.
  std::string name = "/tmp/mrc-stderr-XXXXXX";
  const int file = mkstemp(name.data());
  const int saved = dup(STDERR_FILENO);
  dup2(file, STDERR_FILENO);
  const auto started = builtin_layer().start({});
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(file);
  INFO((started ? "" : started.error().text));
  REQUIRE(started);
  REQUIRE(std::filesystem::file_size(name) == 0);
  unlink(name.c_str());

  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  REQUIRE(CPU_EQUAL(&before, &after));
  REQUIRE(handlers() == handlers_before);
  for (const int descriptor : descriptors.opened_since()) {
    INFO(descriptor << " " << descriptor_target(descriptor));
    REQUIRE((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  }
  for (const auto& folder : {"/var/run/dpdk", "/tmp/dpdk"}) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
      REQUIRE(!entry.path().filename().string().starts_with("mrc-" + std::to_string(getpid())));
  }
  REQUIRE(builtin_layer().start({}));  // again: the first outcome
}

TEST_CASE("CRC-32 is Ethernet's", "[layer]") {
  REQUIRE(builtin_layer().start({}));
  const std::string text = "123456789";
  REQUIRE(builtin_layer().crc32(std::as_bytes(std::span(text))) == 0xcbf43926);
  std::array<std::byte, 4096> zeros{};
  REQUIRE(builtin_layer().crc32(zeros) == 0xc71c0011);
}

TEST_CASE("what cannot be opened is refused in words", "[layer]") {
  REQUIRE(builtin_layer().start({}));
  REQUIRE_THAT(open_error("af_packet:nonesuch0"), Contains("no DPDK port af_packet:nonesuch0: interface nonesuch0 does "
                                                           "not exist (set FI_MRC_PORTS, see mrc-info)"));
  REQUIRE_THAT(open_error("nonesuch0"), Contains("interface nonesuch0 does not exist"));
  REQUIRE_THAT(open_error("tap:lo"), Contains("exists already"));
  REQUIRE_THAT(open_error("lo"), Contains("not an Ethernet interface"));
  REQUIRE_THAT(open_error("af_xdp:lo"), Contains("libmrc-ports.so"));
  REQUIRE_THAT(open_error("pci:0000:00:00.0"), Contains("libmrc-ports.so"));
  REQUIRE_THAT(open_error("memif:/nonesuch/x.sock"), Contains("folder /nonesuch does not exist"));

  MemifOptions memif;
  REQUIRE_THAT(memif_error(memif), Contains("must be absolute"));
  memif.socket_path = "/tmp/" + std::string(200, 'x');
  REQUIRE_THAT(memif_error(memif), Contains("limit is 107"));
  memif.socket_path = "/tmp/a,b";
  REQUIRE_THAT(memif_error(memif), Contains("comma"));
  memif.socket_path = "/tmp/mrc.sock";
  memif.mtu = 70000;
  REQUIRE_THAT(memif_error(memif), Contains("MTU of 70000"));
  memif.mtu = 1500;
  memif.ring_log2 = 15;
  REQUIRE_THAT(memif_error(memif), Contains("2^15"));
  memif.ring_log2 = 9;
  memif.server = true;
  memif.mtu = 65000;  // 33 MB a port
  std::vector<std::unique_ptr<Port>> ports;
  std::string last;
  while (last.empty() && ports.size() < 8) {
    memif.socket_path = "/tmp/mrc-port-test-" + std::to_string(getpid()) + "-" + std::to_string(ports.size());
    auto port = builtin_layer().open_memif(memif);
    if (port)
      ports.push_back(std::move(*port));
    else
      last = port.error().text;
  }
  REQUIRE_THAT(last, Contains("no memory for 512 buffers"));
  REQUIRE(!std::filesystem::exists(memif.socket_path));  // a failed open leaves nothing
  ports.clear();
  memif.mtu = 1500;
  REQUIRE(builtin_layer().open_memif(memif));
  REQUIRE(!std::filesystem::exists(memif.socket_path));

  EalOptions pci;
  pci.pci = true;
  const auto started = builtin_layer().start(pci);
  REQUIRE(!started);
  REQUIRE_THAT(started.error().text, Contains("libmrc-ports.so"));
}

TEST_CASE("the second object's absence is told in the loader's words", "[layer]") {
  REQUIRE(*layer_for(PortKind::kAfPacket, "/nonesuch") == &builtin_layer());
  REQUIRE(*layer_for(PortKind::kMemif, "") == &builtin_layer());
  const auto missing = layer_for(PortKind::kAfXdp, "/nonesuch");
  REQUIRE(!missing);
  REQUIRE_THAT(missing.error().text, Contains("/nonesuch/libmrc-ports.so") && Contains("cannot open shared object"));
  REQUIRE(!layer_for(PortKind::kOther, "/nonesuch"));

  // An object of that name that is something else.
  std::string folder = "/tmp/mrc-layer-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  std::ofstream(folder + "/libmrc-ports.so") << "not an object";
  REQUIRE_THAT(layer_for(PortKind::kPci, folder).error().text, Contains("too short") || Contains("invalid ELF"));
  std::filesystem::remove_all(folder);
}
