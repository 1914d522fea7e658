#!/usr/bin/env bash
# Install LeRobot (see requirements.txt) into its own virtualenv, CPU only.
#
#   ./install.sh VENV_DIR
#
# Quiet; a second run with the same recipe returns at once.  Needs Python 3.11 and,
# for video, the FFmpeg 4-7 shared libraries that torchcodec loads; where they are
# missing and we are root on Debian, they are installed with apt-get.
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 VENV_DIR" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
venv=$1
stamp=$venv/.lerobot-stamp
recipe=$(cat "$here/requirements.txt" "$here/torchvision_cpu_shim.py" "$here/install.sh" | sha256sum | cut -d' ' -f1)

have_ffmpeg() { ldconfig -p 2>/dev/null | grep -q 'libavcodec\.so\.\(58\|59\|60\|61\)'; }

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$recipe" ] && have_ffmpeg; then
    exit 0
fi

log=$(mktemp)
trap 'code=$?; if [ $code -ne 0 ]; then echo "lerobot install failed:" >&2; tail -n 40 "$log" >&2; fi; rm -f "$log"' EXIT

if ! have_ffmpeg; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        export DEBIAN_FRONTEND=noninteractive
        { apt-get update && apt-get install -y --no-install-recommends ffmpeg; } >>"$log" 2>&1
    else
        echo "torchcodec needs FFmpeg's shared libraries (Debian: ffmpeg)" | tee -a "$log" >&2
        exit 1
    fi
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
    echo "Python 3.11 not found (set PYTHON)" | tee -a "$log" >&2
    exit 1
fi

rm -f "$stamp"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv" >>"$log" 2>&1
# --no-deps: nothing may pull another torch, and with it several GB of CUDA.
"$venv/bin/python" -m pip install --disable-pip-version-check --no-input --no-deps --prefer-binary \
    -r "$here/requirements.txt" >>"$log" 2>&1

site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp "$here/torchvision_cpu_shim.py" "$site/torchvision_cpu_shim.py"
echo 'import torchvision_cpu_shim; torchvision_cpu_shim.install()' >"$site/torchvision_cpu_shim.pth"

HF_HUB_OFFLINE=1 "$venv/bin/python" - >>"$log" 2>&1 <<'PY'
import torch
from lerobot.datasets.lerobot_dataset import CODEBASE_VERSION, LeRobotDataset  # noqa: F401
from torchcodec.decoders import VideoDecoder  # noqa: F401

assert CODEBASE_VERSION == "v3.0", CODEBASE_VERSION
assert not torch.cuda.is_available()
PY

echo "$recipe" >"$stamp"
