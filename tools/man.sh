#!/usr/bin/env bash
# Makes the man page prov/mrc/fi_mrc.7 from its Markdown source, as libfabric makes its own: with pandoc. Both are
# committed, so that nobody needs pandoc to build. `tools/man.sh --check` says whether the page fits its source.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source=prov/mrc/fi_mrc.7.md page=prov/mrc/fi_mrc.7
mark=".\\\" made by tools/man.sh from fi_mrc.7.md, $(sha256sum "$source" | cut -d ' ' -f 1)"
case ${1:-} in
  -h | --help)
    sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"
    printf '\nExamples:\n  tools/man.sh\n  man -l prov/mrc/fi_mrc.7\n'
    ;;
  --check)
    [ "$(head -n 1 "$page")" = "$mark" ] || { echo "$page is older than $source: run tools/man.sh (needs pandoc)" >&2; exit 1; }
    ;;
  '')
    command -v pandoc >/dev/null || { echo "tools/man.sh needs pandoc: apt-get install pandoc" >&2; exit 1; }
    { printf '%s\n' "$mark"; pandoc -s -t man "$source" | grep -v '^\.\\" Automatically generated'; } >"$page.new"
    sed -i 's/^\.TH .*/.TH "fi_mrc" "7" "" "mrc" "Libfabric Programmer'"'"'s Manual"/' "$page.new"
    mv "$page.new" "$page"
    ;;
  *)
    echo "unknown option: $1 (see --help)" >&2
    exit 2
    ;;
esac
