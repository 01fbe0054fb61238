// SPDX-License-Identifier: BSD-2-Clause
// The client's directory cache: what is kept, for how long, and its bound.
#include "directory_cache.hpp"

#include "support/catch.hpp"

using namespace mrc;
using control::DirectoryCache;
using Answer = path::Directory::Answer;

TEST_CASE("answers are asked for once, and negative ones expire") {
  DirectoryCache cache;
  Answer answer{};
  path::Location at;
  const Tick start{1000};
  CHECK(cache.lookup(1, 2, start, answer, at));
  CHECK(answer == Answer::kPending);
  cache.asked(1, 2);
  CHECK_FALSE(cache.lookup(1, 2, start + seconds(5), answer, at));
  CHECK(answer == Answer::kPending);

  cache.learn(1, 2, Answer::kUnknown, {}, start);
  CHECK_FALSE(cache.lookup(1, 2, start + milliseconds(19), answer, at));
  CHECK(answer == Answer::kUnknown);
  CHECK(cache.lookup(1, 2, start + milliseconds(20), answer, at));
  CHECK(answer == Answer::kPending);

  cache.learn(1, 2, Answer::kNoRoute, {}, start);
  CHECK_FALSE(cache.lookup(1, 2, start + milliseconds(999), answer, at));
  CHECK(answer == Answer::kNoRoute);
  CHECK(cache.lookup(1, 2, start + seconds(1), answer, at));

  cache.learn(1, 2, Answer::kFound, {3, 4}, start);
  CHECK_FALSE(cache.lookup(1, 2, start + seconds(100000), answer, at));
  CHECK(answer == Answer::kFound);
  CHECK(at == path::Location{3, 4});
  CHECK(cache.lookup(1, 3, start, answer, at));  // another port
  cache.forget(1, 2);
  CHECK(cache.lookup(1, 2, start, answer, at));
}

TEST_CASE("the cache is bounded and gives up negative answers first") {
  DirectoryCache cache(100);
  for (std::uint16_t port = 0; port < 50; ++port) cache.learn(1, port, Answer::kFound, {port, 0}, {});
  for (std::uint16_t port = 100; port < 1000; ++port) {
    cache.learn(1, port, Answer::kUnknown, {}, {});
    REQUIRE(cache.size() <= 100);
  }
  Answer answer{};
  path::Location at;
  for (std::uint16_t port = 0; port < 50; ++port) {
    REQUIRE_FALSE(cache.lookup(1, port, {}, answer, at));
    REQUIRE(at == path::Location{port, 0});
  }
  for (std::uint16_t port = 0; port < 1000; ++port) {
    cache.learn(2, port, Answer::kFound, {}, {});
    REQUIRE(cache.size() <= 100);
  }
}
