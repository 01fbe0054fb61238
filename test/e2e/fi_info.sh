#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# libfabric finds the provider, lists its endpoint type, capabilities and parameters, and refuses bad settings in words.
. "$(dirname "$0")/lib.sh"

fi_info -p mrc >"$WORK/info" || fail "fi_info -p mrc"
grep -q 'type: FI_EP_RDM' "$WORK/info" || { cat "$WORK/info"; fail "no FI_EP_RDM"; }
fi_info -p mrc -v >"$WORK/verbose"
for word in FI_MSG FI_TAGGED FI_RMA FI_ATOMIC FI_NAMED_RX_CTX FI_FENCE FI_TRIGGER FI_SHARED_AV FI_ORDER_SAS FI_SOCKADDR_IN FI_AV_ FI_PROGRESS_MANUAL; do
  grep -q "$word" "$WORK/verbose" || fail "fi_info -v does not say $word"
done
fi_info -e >"$WORK/env"
for name in FI_MRC_PORTS FI_MRC_CONFIG FI_MRC_SWITCH FI_MRC_CONNECT_TIMEOUT FI_MRC_PEER_TIMEOUT FI_MRC_SERVICE_THREAD; do
  grep -q "$name" "$WORK/env" || fail "fi_info -e does not list $name"
done
# Capabilities that are not offered must not be claimed.
for word in FI_COLLECTIVE FI_VARIABLE_MSG FI_HMEM; do
  ! grep -q "$word" "$WORK/verbose" || fail "claims $word"
done

refused() { # refused WHAT WORD ENV…: the provider vanishes from fi_info, and the log says why, naming WORD
  local what=$1 word=$2
  shift 2
  ! env FI_LOG_LEVEL=warn "$@" fi_info -p mrc >"$WORK/out" 2>&1 || fail "$what was accepted"
  grep -qi "$word" "$WORK/out" || { cat "$WORK/out"; fail "$what: the message does not name '$word'"; }
}
refused "an unknown value" FI_MRC_EV_SPLIT FI_MRC_EV_SPLIT=sideways
refused "a number that is none" FI_MRC_WINDOW FI_MRC_WINDOW=many
log "fi_info lists RDM and the parameters; bad values are refused in words"
