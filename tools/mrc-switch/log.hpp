// SPDX-License-Identifier: BSD-2-Clause
// mrc-switch's log: lines with a time on stderr, which --log and the autostart point at a file; the file never grows
// beyond 1 MiB. Control paths only.
#pragma once

#include <fmt/format.h>

#include <string>

namespace mrc::soft {

/// Points stdout and stderr at `path`. Returns an errno.
int log_to_file(const std::string& path);
void log_line(const std::string& text);

template <class... Args>
void log(fmt::format_string<Args...> format, Args&&... args) {
  log_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace mrc::soft
