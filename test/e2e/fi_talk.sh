#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# libfabric's interface end to end, on three fabrics: see test/prov/e2e/run.sh.
exec "$(dirname "$0")/../prov/e2e/run.sh" "$@"
