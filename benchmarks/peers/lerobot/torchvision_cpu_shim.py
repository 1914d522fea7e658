"""Let a torchvision wheel built for another torch import on a CPU-only torch.

torchvision's compiled operators do not load without the CUDA libraries (or with
another torch version).  torchvision itself tolerates that, except for a few lines
that attach a fake kernel to ``torchvision::nms`` and fail when the operator was
never declared.  This module declares the operators (schema only, no kernel) just
before torchvision is imported.  Transforms, tensors and the pure Python parts work;
calling ``nms`` still raises, which no dataset code does.

install.sh puts this file into the virtualenv together with a one-line ``.pth`` that
calls :func:`install` at interpreter start.  Nothing heavy is imported until somebody
imports torchvision.
"""

from __future__ import annotations

import contextlib
import sys

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_keep_alive = []


class _BeforeTorchvision:
    """Import hook: declares the operators once, then steps aside."""

    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path[:] = [hook for hook in sys.meta_path if hook is not self]
            import torch

            library = torch.library.Library("torchvision", "FRAGMENT")
            for schema in _SCHEMAS:
                with contextlib.suppress(RuntimeError):  # the real operators are there
                    library.define(schema)
            _keep_alive.append(library)
        return


def install() -> None:
    if not any(isinstance(hook, _BeforeTorchvision) for hook in sys.meta_path):
        sys.meta_path.insert(0, _BeforeTorchvision())
