// SPDX-License-Identifier: BSD-2-Clause
// The reference model: memory that all processes of a stress share. Whoever does something writes down here first what
// must come of it; whoever sees the outcome compares. Members are endpoints: one a thread, or one a process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace stress {

inline constexpr int kMembers = 8;
/// Messages from one member to another that may be announced and not received yet.
inline constexpr std::uint64_t kRing = 64;
/// Part of a member's registered memory that one other member alone writes to.
inline constexpr std::size_t kSlice = 192 * 1024;
/// Words behind the slices that everybody adds to.
inline constexpr std::size_t kWords = 8;

/// How a message has to be received, the upper 4 bits of its tag.
enum class Kind : std::uint32_t {
  kExact = 1,     ///< by its own tag, from its sender or from anybody; peeked at, claimed, discarded, cut off
  kWild = 2,      ///< by the kind alone, from anybody: each sender's messages in order
  kDirected = 3,  ///< by the kind, from its sender only: in order
  kUntagged = 4,  ///< in order; by single receives or a multi-receive buffer
  kNever = 5,     ///< tag of receives that nobody answers
};

/// An announcement's place may be used again when it is all of these.
enum State : std::uint32_t { kFree = 0, kAnnounced = 1, kReceived = 2, kAnswered = 4, kOver = 7 };

struct Announced {
  std::atomic<std::uint32_t> state{kFree};
  Kind kind = Kind::kExact;
  bool has_data = false;
  std::uint64_t id = 0, tag = 0, size = 0;
};

struct Channel {
  Announced ring[kRing];
  std::atomic<std::uint64_t> next{0};
};

/// What is counted, for the report.
enum Count {
  kSends,
  kTaggedSends,
  kInjects,
  kDelivered,  ///< with FI_DELIVERY_COMPLETE
  kReceives,
  kMultiReceives,
  kPeeks,
  kClaims,
  kDiscards,
  kTruncated,
  kCancels,
  kWrites,
  kWritesWithData,
  kReads,
  kAtomics,
  kFetches,
  kCompares,
  kFenced,
  kBytes,
  kRounds,
  kCounts
};

struct World {
  std::uint64_t seed = 0;
  int ranks = 4, threads = 2, members = 8;
  bool shared = false;   ///< the threads of a process share one endpoint
  bool ordered = false;  ///< overlapping RMA and atomics, in the order that was asked for
  double seconds = 0;
  std::atomic<double> end{0};
  std::atomic<bool> failed{false};
  std::atomic<bool> told{false};  ///< to end
  char why[512] = {};
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> arrived{0};
  std::atomic<int> opened{0}, closed{0};
  struct {
    char bytes[64];
    std::size_t length;
  } names[kMembers];
  Channel channels[kMembers][kMembers];  ///< from, to
  std::atomic<std::uint64_t> announced[kMembers], received[kMembers];
  std::atomic<std::uint64_t> remote_writes[kMembers], remote_reads[kMembers];
  std::atomic<std::uint64_t> data_written[kMembers][kMembers];  ///< writes with data, from, to
  std::atomic<std::uint64_t> words[kMembers][kWords];
  std::atomic<std::uint64_t> counts[kCounts];
  std::uint8_t shadow[kMembers][kMembers][kSlice];  ///< of whom, written by whom

  void count(Count what, std::uint64_t n = 1) { counts[what].fetch_add(n, std::memory_order_relaxed); }
};

inline constexpr std::uint64_t id_of(int from, int to, std::uint64_t n) {
  return static_cast<std::uint64_t>(from) << 56 | static_cast<std::uint64_t>(to) << 48 | n;
}
inline constexpr std::uint64_t tag_of(Kind kind, std::uint64_t id) {
  return static_cast<std::uint64_t>(kind) << 60 | id;
}
inline constexpr std::uint64_t kAnyOfKind = ~(15ull << 60);

/// The bytes of message `id`: the id itself, then what only it has.
void fill(std::uint8_t* at, std::size_t size, std::uint64_t id);
/// Where `at` differs from that; SIZE_MAX if nowhere.
std::size_t difference(const std::uint8_t* at, std::size_t size, std::uint64_t id);
double now();

template <class... T>
std::string values(const T&... each) {
  std::string text;
  ((text.append(1, ' ').append(std::to_string(each))), ...);
  return text;
}

[[noreturn]] void differs(const char* file, int line, const char* what, const std::string& values);

#define STRESS_CHECK(condition, ...)                                                                     \
  do {                                                                                                   \
    if (!(condition)) stress::differs(__FILE_NAME__, __LINE__, #condition, stress::values(__VA_ARGS__)); \
  } while (0)

}  // namespace stress
