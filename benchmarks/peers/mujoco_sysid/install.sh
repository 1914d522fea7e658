#!/usr/bin/env bash
# Install mujoco.sysid (see requirements.txt) into its own virtualenv.
#
#   ./install.sh VENV_DIR
#
# Quiet; a second run with the same recipe returns at once.
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 VENV_DIR" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
venv=$1
stamp=$venv/.sysid-stamp
recipe=$(cat "$here/requirements.txt" "$here/install.sh" | sha256sum | cut -d' ' -f1)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$recipe" ]; then
    exit 0
fi

log=$(mktemp)
trap 'code=$?; if [ $code -ne 0 ]; then echo "mujoco.sysid install failed:" >&2; tail -n 40 "$log" >&2; fi; rm -f "$log"' EXIT
rm -f "$stamp"
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv" >>"$log" 2>&1
"$venv/bin/python" -m pip install --disable-pip-version-check --no-input --prefer-binary \
    -r "$here/requirements.txt" >>"$log" 2>&1
"$venv/bin/python" -c 'from mujoco.sysid import optimize' >>"$log" 2>&1
echo "$recipe" >"$stamp"
