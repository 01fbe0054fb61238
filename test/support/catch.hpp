// SPDX-License-Identifier: BSD-2-Clause
// One include for Catch2 v2 (Debian 12) and v3 (Debian 13).
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
