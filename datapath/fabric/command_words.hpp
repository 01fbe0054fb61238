// SPDX-License-Identifier: BSD-2-Clause
// The words of the command language, taken apart but not yet applied (private to command*.cpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/fabric/command.hpp"

namespace mrc::fabric {

/// What the actions apply to. A scope is one of these; `links` and `switches` hold what is touched by name.
enum class Scope : std::uint8_t { kFabric, kPlane, kLinks, kSwitches };

struct Change {
  enum class Kind : std::uint8_t {
    kDown,
    kUp,
    kClear,
    kClearImpairment,
    kField,
    kDelay,
    kReorder,
    kBurst,
    kFlap,
    kRate,
    kEcn,
    kTrim
  };
  Kind kind = Kind::kUp;
  double Impairment::*field = nullptr;  ///< kField
  double value = 0;                     ///< kField, kReorder: chance; kRate: share of the model's rate
  std::optional<Duration> time{};       ///< kDelay, kReorder
  double length = 1, loss = 1;          ///< kBurst
  Flap flap{};
  std::uint64_t bps = 0;  ///< kRate; 0 with value 0: the model's
  bool on = true;         ///< kEcn, kTrim
};

struct Plan {
  Scope scope = Scope::kFabric;
  unsigned plane = 0;  ///< kPlane
  std::vector<LinkId> links{};
  std::vector<SwitchId> switches{};
  std::vector<Change> changes{};
};

/// Walks over the words of a command.
class Words {
 public:
  explicit Words(std::string_view text);
  bool done() const { return at_ >= words_.size(); }
  std::string_view peek(std::size_t ahead = 0) const {
    return at_ + ahead < words_.size() ? words_[at_ + ahead] : std::string_view{};
  }
  std::string_view take() { return done() ? std::string_view{} : words_[at_++]; }
  bool accept(std::string_view word) {
    if (peek() != word || done()) return false;
    ++at_;
    return true;
  }
  std::size_t left() const { return words_.size() - at_; }
  bool too_long() const { return too_long_; }

 private:
  std::vector<std::string_view> words_;
  std::size_t at_ = 0;
  bool too_long_ = false;
};

/// For error messages: in quotes, cut short, printable.
std::string quoted(std::string_view word);
std::optional<unsigned> index_number(std::string_view word);  ///< 0..65535

/// Reads WHERE. Errors name what this fabric has.
Result<Plan> read_where(const Clos& clos, Words& words);
/// Reads the actions that follow into plan.changes.
Result<void> read_actions(const Clos& clos, Words& words, Plan& plan, const CommandRules& rules);

}  // namespace mrc::fabric
