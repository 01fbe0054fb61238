// SPDX-License-Identifier: BSD-2-Clause
// Catch2 v2's main, compiled once (v3 brings its own).
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
