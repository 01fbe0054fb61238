// SPDX-License-Identifier: BSD-2-Clause
// Logging goes through libfabric's FI_LOG and nowhere else: nothing of ours on stdout or stderr.
#pragma once

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <cerrno>

namespace mrc::prov {

/// The provider's descriptor, as libfabric knows it (provider.cpp).
extern fi_provider provider;

}  // namespace mrc::prov

// `area` is CORE, FABRIC, DOMAIN, EP_CTRL, EP_DATA, AV, CQ, EQ, MR or CNTR. Formats are printf's, with the newline
// added here. WARN = the user has to do something; INFO = why something was refused; DEBUG = details.
#define MRC_LOG_(level, area, format, ...) \
  FI_LOG(&::mrc::prov::provider, level, FI_LOG_##area, format "\n" __VA_OPT__(, ) __VA_ARGS__)
#define MRC_WARN(area, ...) MRC_LOG_(FI_LOG_WARN, area, __VA_ARGS__)
#define MRC_INFO(area, ...) MRC_LOG_(FI_LOG_INFO, area, __VA_ARGS__)
#define MRC_DEBUG(area, ...) MRC_LOG_(FI_LOG_DEBUG, area, __VA_ARGS__)
