// SPDX-License-Identifier: BSD-2-Clause
// Names and connections of an engine: aliases, reservations, errors in words.
#include <cerrno>

#include "fakes.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::test;
using engine::EndpointName;
using transport::EventKind;
using transport::Status;

TEST_CASE("loopback and local addresses are aliases of the identity, others are not") {
  Pair pair({});
  const auto& engine = *pair.left;
  REQUIRE(engine.ipv4() == kLeft);
  REQUIRE(engine.canonical(0x7f000001) == kLeft);
  REQUIRE(engine.canonical(0x7f010203) == kLeft);
  for (const std::uint32_t local : engine::local_ipv4s()) REQUIRE(engine.canonical(local) == kLeft);
  REQUIRE(engine.canonical(kRight) == kRight);
  REQUIRE(engine.canonical(0x08080808) == 0x08080808);
}

TEST_CASE("an address that another port group of this host has is no alias") {
  Random random(1);
  engine::OwnPortsPlan plan;
  plan.ipv4 = kLeft;
  plan.foreign = engine::local_ipv4s();
  std::vector<std::unique_ptr<port::Port>> ports;
  ports.push_back(std::make_unique<FakePort>(std::make_shared<Lane>(), std::make_shared<Lane>(), 0, 1500, random));
  engine::EngineParts parts;
  parts.config.service_thread = false;
  parts.attachment = std::make_unique<engine::OwnPorts>(plan, std::move(ports), crc32);
  const auto engine = engine::EngineImpl::create(std::move(parts));
  REQUIRE(engine.has_value());
  for (const std::uint32_t local : plan.foreign) {
    if (local >> 24 != 127) REQUIRE((*engine)->canonical(local) == local);
  }
}

TEST_CASE("a name is given once") {
  Random random(1);
  engine::OwnPortsPlan plan;
  plan.ipv4 = 0x7f000001;
  std::vector<std::unique_ptr<port::Port>> ports;
  ports.push_back(std::make_unique<FakePort>(std::make_shared<Lane>(), std::make_shared<Lane>(), 0, 1500, random));
  engine::EngineParts parts;
  parts.config.service_thread = false;
  parts.attachment = std::make_unique<engine::OwnPorts>(plan, std::move(ports), crc32);
  auto engine = *engine::EngineImpl::create(std::move(parts));
  FakeClient client;
  const std::lock_guard guard(*engine);
  EndpointName any{0, 0};
  REQUIRE(engine->open_endpoint_locked(any, &client).has_value());
  REQUIRE(any.port != 0);
  EndpointName same = any;
  const auto twice = engine->open_endpoint_locked(same, &client);
  REQUIRE_FALSE(twice.has_value());
  REQUIRE(twice.error().code == EADDRINUSE);
  EndpointName elsewhere{0x08080808, 0};
  const auto foreign = engine->open_endpoint_locked(elsewhere, &client);
  REQUIRE_FALSE(foreign.has_value());
  REQUIRE(foreign.error().code == EADDRNOTAVAIL);
  REQUIRE(foreign.error().text.find("8.8.8.8") != std::string::npos);
}

TEST_CASE("ICRC settings that do not exist are refused in words") {
  Random random(1);
  std::vector<std::unique_ptr<port::Port>> ports;
  ports.push_back(std::make_unique<FakePort>(std::make_shared<Lane>(), std::make_shared<Lane>(), 0, 1500, random));
  engine::EngineParts parts;
  parts.config.icrc = "off";
  parts.attachment = std::make_unique<engine::OwnPorts>(engine::OwnPortsPlan{}, std::move(ports), crc32);
  const auto made = engine::EngineImpl::create(std::move(parts));
  REQUIRE_FALSE(made.has_value());
  REQUIRE(made.error().text.find("FI_MRC_ICRC is \"off\"") != std::string::npos);
}

TEST_CASE("a peer that nobody is fails in words, not in silence") {
  Pair::Options options;
  options.config.transport.connect_timeout = milliseconds(300);
  Pair pair(options);
  FakeClient client;
  EndpointName name{0, 100};
  transport::ConnId nobody, own, nowhere;
  {
    const std::lock_guard guard(*pair.left);
    const auto ep = pair.left->open_endpoint_locked(name, &client);
    REQUIRE(ep.has_value());
    nobody = pair.left->connect_locked(*ep, {0x0a4d0009, 1});     // no such host
    own = pair.left->connect_locked(*ep, {kLeft, 999});           // no such endpoint here
    nowhere = pair.left->connect_locked(*ep, {0xe0000001, 999});  // a multicast address
    transport::WriteRequest write;
    write.cookie = 5;
    REQUIRE(pair.left->post_write_locked(nobody, write) == Status::kOk);
    REQUIRE(pair.left->post_write_locked(own, write) == Status::kAgain);
    REQUIRE(pair.left->post_write_locked(nowhere, write) == Status::kNoRoute);
    REQUIRE(pair.left->why_locked(nowhere).find("no way to 224.0.0.1") != std::string::npos);
    REQUIRE(pair.left->post_write_locked(12345, write) == Status::kInvalid);
  }
  REQUIRE(pair.run([&] { return client.count(EventKind::kConnFailed, Status::kTimedOut) == 1; }, seconds(5)));
  REQUIRE(client.count(EventKind::kWriteDone, Status::kTimedOut) == 1);
  const std::lock_guard guard(*pair.left);
  REQUIRE(pair.left->why_locked(nobody).find("10.77.0.9:1 did not answer within") != std::string::npos);
  REQUIRE(pair.left->post_write_locked(own, {}) == Status::kTimedOut);
  REQUIRE(pair.left->why_locked(own).find("nobody opened 10.77.0.1:999") != std::string::npos);
  REQUIRE(pair.left->driver_counters_locked().tx_no_neighbour > 0);
}

TEST_CASE("a forked child's engine is dead") {
  Pair pair({});
  pair.left->die_in_child();
  EndpointName name{0, 100};
  FakeClient client;
  const std::lock_guard guard(*pair.left);
  REQUIRE(pair.left->open_endpoint_locked(name, &client).error().code == EOWNERDEAD);
  REQUIRE_FALSE(pair.left->progress_locked());
  REQUIRE(pair.left->post_write_locked(0, {}) == Status::kInvalid);
  REQUIRE_FALSE(pair.left->arm_locked());
}

TEST_CASE("a job key opens connections to those who have it, and to nobody else") {
  for (const bool same : {true, false}) {
    Pair::Options options;
    options.config.transport.job_key_set = true;
    options.config.transport.job_key.fill(std::byte{7});
    options.config.transport.connect_timeout = milliseconds(300);
    options.right_key = same ? std::byte{7} : std::byte{8};
    Pair pair(options);
    FakeClient client, server(10);
    EndpointName a{0, 1}, b{0, 2};
    const std::string text = "0123456789";
    const engine::GatherPiece piece{text.data(), 10};
    const engine::Gather gather{&piece, 1};
    transport::WriteRequest write;
    write.length = 10;
    write.source = &gather;
    {
      const std::lock_guard guard(*pair.right);
      REQUIRE(pair.right->open_endpoint_locked(b, &server).has_value());
    }
    {
      const std::lock_guard guard(*pair.left);
      const auto ep = *pair.left->open_endpoint_locked(a, &client);
      REQUIRE(pair.left->post_write_locked(pair.left->connect_locked(ep, {kRight, 2}), write) == Status::kOk);
    }
    REQUIRE(pair.run([&] { return client.count(EventKind::kWriteDone, same ? Status::kOk : Status::kRefused) == 1; }));
    REQUIRE(server.placed == (same ? 1 : 0));
  }
}
