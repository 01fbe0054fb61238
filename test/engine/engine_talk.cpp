// SPDX-License-Identifier: BSD-2-Clause
// Two processes talk through the engine alone, over whatever the environment says (FI_MRC_PORTS, FI_MRC_CONFIG,
// FI_MRC_SWITCH_SOCKET …), for end-to-end tests and a first figure without libfabric on top.
//   engine_talk serve PORT            answers until SIGTERM or 60 s; writes of VA 0 echo their message back
//   engine_talk ping HOST:PORT COUNT SIZE       round trips
//   engine_talk stream HOST:PORT COUNT SIZE     writes of SIZE, 16 outstanding, contents checked by the server's CRC
//   engine_talk compute PORT MS       opens PORT, then does not call the engine for MS milliseconds
#include <sys/prctl.h>
#include <unistd.h>

#include <boost/crc.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "mrc/engine/engine.hpp"
#include "mrc/engine/identity.hpp"

using namespace mrc;
using namespace mrc::engine;

namespace {

constexpr std::size_t kMemory = 64u << 20;
constexpr std::uint64_t kCheck = kMemory;  // a VA past the memory: "tell me the CRC of the first `imm` bytes"

volatile std::sig_atomic_t stop = 0;

std::uint32_t crc_of(const std::byte* data, std::size_t length) {
  boost::crc_32_type crc;
  crc.process_bytes(data, length);
  return crc.checksum();
}

struct Talker final : Client {
  transport::Placement place(const transport::RxWrite& w) override {
    if (w.va >= kCheck) {
      if (!w.payload.empty()) std::memcpy(&answer, w.payload.data(), sizeof(answer));
    } else if (w.va + w.payload.size() <= memory.size()) {
      if (!w.payload.empty()) std::memcpy(memory.data() + w.va, w.payload.data(), w.payload.size());
    } else {
      return transport::Placement::kRefused;
    }
    bytes += w.payload.size();
    if (w.has_imm) {
      imm = w.imm;
      imm_conn = w.conn;
      imm_va = w.va;
      imm_length = w.message_length;
      ++imms;
    }
    return transport::Placement::kPlaced;
  }
  void on_event(const transport::Event& event) override {
    if (event.kind == transport::EventKind::kWriteDone) ++done;
    if (event.status != transport::Status::kOk) {
      failed = static_cast<int>(event.status);
      failed_conn = event.conn;
    }
  }
  bool on_progress(Tick) override { return false; }
  std::vector<std::byte> memory = std::vector<std::byte>(kMemory);
  std::uint64_t bytes = 0, done = 0, imms = 0, imm_va = 0;
  std::uint32_t imm = 0, imm_length = 0, answer = 0;
  transport::ConnId imm_conn = 0, failed_conn = 0;
  int failed = 0;
};

EngineConfig from_environment() {
  const auto get = [](const char* name) { return std::string(std::getenv(name) != nullptr ? std::getenv(name) : ""); };
  EngineConfig config;
  config.ports = get("FI_MRC_PORTS");
  config.config_file = get("FI_MRC_CONFIG");
  config.switch_socket = get("FI_MRC_SWITCH_SOCKET");
  config.switch_program = get("FI_MRC_SWITCH");
  config.stats_path = get("FI_MRC_STATS");
  config.capture_path = get("FI_MRC_PCAP");
  if (!get("FI_MRC_ICRC").empty()) config.icrc = get("FI_MRC_ICRC");
  config.service_thread = get("FI_MRC_SERVICE_THREAD") != "0";
  config.log = [](int level, const char* text) { std::fprintf(stderr, "[%d] %s\n", level, text); };
  return config;
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void poll(Engine& engine) {
  const std::lock_guard guard(engine);
  engine.progress_locked();
}

int serve(Engine& engine, Talker& talker, Gather* gather, std::uint32_t* crc) {
  std::uint64_t seen = 0;
  const auto start = Clock::now();
  while (stop == 0 && seconds_since(start) < 60) {
    const std::lock_guard guard(engine);
    engine.progress_locked();
    if (talker.imms == seen) continue;
    transport::WriteRequest write;
    write.source = &gather[0];
    write.length = talker.imm_length;
    if (talker.imm_va >= kCheck) {
      *crc = crc_of(talker.memory.data(), talker.imm);
      write.source = &gather[1];
      write.length = sizeof(*crc);
      write.va = kCheck;
    }
    write.has_imm = true;
    if (engine.post_write_locked(talker.imm_conn, write) == transport::Status::kOk) ++seen;
  }
  return 0;
}

bool wait_for(Engine& engine, Talker& talker, const std::uint64_t& value, std::uint64_t goal) {
  const auto start = Clock::now();
  while (value < goal) {
    poll(engine);
    if (talker.failed != 0 || seconds_since(start) > 30) {
      const std::lock_guard guard(engine);
      std::fprintf(stderr, "failed: status %d: %s\n", talker.failed, engine.why_locked(talker.failed_conn).c_str());
      return false;
    }
  }
  return true;
}

bool post(Engine& engine, transport::ConnId conn, const transport::WriteRequest& write) {
  const auto start = Clock::now();
  for (;;) {
    transport::Status status;
    {
      const std::lock_guard guard(engine);
      status = engine.post_write_locked(conn, write);
      if (status == transport::Status::kOk) return true;
      if (status != transport::Status::kAgain || seconds_since(start) > 30) {
        std::fprintf(stderr, "post: status %d: %s\n", static_cast<int>(status), engine.why_locked(conn).c_str());
        return false;
      }
    }
    poll(engine);
  }
}

int ping(Engine& engine, Talker& talker, Gather* gather, transport::ConnId conn, std::uint64_t count,
         std::uint32_t size) {
  transport::WriteRequest write;
  write.source = &gather[0];
  write.length = size;
  write.has_imm = true;
  auto start = Clock::now();
  for (std::uint64_t i = 0; i < count + 100; ++i) {
    if (i == 100) start = Clock::now();
    if (!post(engine, conn, write) || !wait_for(engine, talker, talker.imms, i + 1)) return 1;
  }
  std::printf("ping %u B: %.2f us half round trip\n", size,
              seconds_since(start) * 1e6 / static_cast<double>(count) / 2);
  return 0;
}

int stream(Engine& engine, Talker& talker, Gather* gather, transport::ConnId conn, std::uint64_t count,
           std::uint32_t size) {
  for (std::size_t i = 0; i < kMemory; ++i) talker.memory[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  auto start = Clock::now();
  for (std::uint64_t i = 0; i < count; ++i) {
    transport::WriteRequest write;
    write.source = &gather[0];
    write.length = size;
    write.va = write.source_offset = i * size % (kMemory - size + 1);
    if (!post(engine, conn, write) || !wait_for(engine, talker, talker.done, i < 16 ? 0 : i - 15)) return 1;
    if (i == 0 && count > 1) {
      if (!wait_for(engine, talker, talker.done, 1)) return 1;
      start = Clock::now();
    }
  }
  if (!wait_for(engine, talker, talker.done, count)) return 1;
  const double took = seconds_since(start);
  const std::uint64_t all = std::min<std::uint64_t>(size * count, size);
  transport::WriteRequest write;
  write.va = kCheck;
  write.has_imm = true;
  write.imm = static_cast<std::uint32_t>(all);
  if (!post(engine, conn, write) || !wait_for(engine, talker, talker.imms, 1)) return 1;
  const bool same = talker.answer == crc_of(talker.memory.data(), all);
  std::printf("stream %u B: %.2f Gb/s, %.3f M/s, contents %s\n", size,
              static_cast<double>(size) * static_cast<double>(count - 1) * 8 / took / 1e9,
              static_cast<double>(count - 1) / took / 1e6, same ? "right" : "WRONG");
  return same ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "see the head of engine_talk.cpp\n"), 64;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  std::signal(SIGTERM, [](int) { stop = 1; });
  const std::string mode = argv[1], where = argv[2];
  auto acquired = Engine::acquire(from_environment());
  if (!acquired) return std::fprintf(stderr, "%s\n", acquired.error().text.c_str()), 1;
  Engine& engine = **acquired;
  static Talker talker;
  static std::uint32_t crc = 0;
  const GatherPiece pieces[] = {{talker.memory.data(), kMemory}, {&crc, sizeof(crc)}};
  static Gather gather[2];
  gather[0] = {&pieces[0], 1};
  gather[1] = {&pieces[1], 1};
  const auto colon = where.find(':');
  const bool client = colon != std::string::npos;
  EndpointName name{0, static_cast<std::uint16_t>(client ? 0 : std::atoi(where.c_str()))};
  engine.lock();
  auto ep = engine.open_endpoint_locked(name, &talker);
  engine.unlock();
  if (!ep) return std::fprintf(stderr, "%s\n", ep.error().text.c_str()), 1;
  int status = 0;
  if (mode == "serve") {
    status = serve(engine, talker, gather, &crc);
  } else if (mode == "compute" && argc > 3) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(argv[3])));
    std::printf("computed, %llu bytes arrived meanwhile\n", static_cast<unsigned long long>(talker.bytes));
    status = serve(engine, talker, gather, &crc);
  } else if (client && argc > 4) {
    const auto host = parse_ipv4(where.substr(0, colon));
    if (!host) return std::fprintf(stderr, "%s\n", host.error().text.c_str()), 64;
    engine.lock();
    const auto conn =
        engine.connect_locked(*ep, {*host, static_cast<std::uint16_t>(std::atoi(where.c_str() + colon + 1))});
    engine.unlock();
    const auto count = static_cast<std::uint64_t>(std::atoll(argv[3]));
    const auto size = static_cast<std::uint32_t>(std::atoi(argv[4]));
    status = mode == "ping" ? ping(engine, talker, gather, conn, count, size)
                            : stream(engine, talker, gather, conn, count, size);
  }
  engine.close_endpoint(*ep);
  return status;
}
