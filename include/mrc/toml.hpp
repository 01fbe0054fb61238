// SPDX-License-Identifier: BSD-2-Clause
// toml++ as all of mrc includes it: no exceptions, and no abort() on a malformed file. Its parser asserts some of what
// it then checks and reports as an error anyway (3.2: parse_key() on "{[=").
#pragma once

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>
