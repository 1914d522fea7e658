#!/usr/bin/env bash
# Install a peer (the requirements.txt of its folder) into its own virtualenv.
#
#   ./install.sh PEER_DIR VENV_DIR
#
# Quiet; a second run with the same requirements returns at once. Needs Python 3.11.
set -euo pipefail

if [ $# -ne 2 ]; then
    echo "usage: $0 PEER_DIR VENV_DIR" >&2
    exit 2
fi
requirements=$1/requirements.txt
venv=$2
stamp=$venv/.peer-stamp
recipe=$(sha256sum <"$requirements" | cut -d' ' -f1)

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$recipe" ]; then
    exit 0
fi

python=${PYTHON:-}
if [ -z "$python" ]; then
    for candidate in python3.11 python3; do
        if command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
            python=$candidate
            break
        fi
    done
fi
if [ -z "$python" ]; then
    echo "Python 3.11 not found (set PYTHON)" >&2
    exit 1
fi

rm -f "$stamp"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --prefer-binary \
    -r "$requirements" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    exit 1
fi
echo "$recipe" >"$stamp"
