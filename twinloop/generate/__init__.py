"""From a twin to episodes: randomize, simulate behind imperfect hardware, record.

`twinloop.generate(...)` is `twinloop.generate.run.generate`: the verb and this package share their name, so the package
can be called.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *words: Any, **named: Any) -> Any:
        from twinloop.generate.run import generate

        return generate(*words, **named)


sys.modules[__name__].__class__ = _CallablePackage
