"""Files and folders that outlive a power failure: waiting for the disk, and exchanging folders at once."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Wait until a folder and everything below it are on the disk."""
    for place, folders, files in os.walk(folder, topdown=False, onerror=_raise):
        for name in (*files, *folders):
            path = Path(place, name)
            if not path.is_symlink() and not path.is_dir():
                sync(path)
        sync(Path(place))


def replace_durably(temporary: Path, target: Path) -> None:
    """Give a finished file or folder its name, so that after a power failure it is whole or as it was before."""
    if temporary.is_dir():
        sync_tree(temporary)
    else:
        sync(temporary)
    temporary.replace(target)
    sync(target.parent)


def swap_folders(one: Path, other: Path) -> None:
    """Exchange two folders, atomically where the system can, so that the name always exists."""
    exchange, here = 2, -100
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (here, os.fsencode(one.absolute()), here, os.fsencode(other.absolute()), exchange)
    if hasattr(libc, "renameat2"):
        if libc.renameat2(*arguments) == 0:
            return
        if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))
    aside = find_unused_path(other.with_name(f"{other.name}.swapping"))
    other.rename(aside)
    one.rename(other)
    aside.rename(one)


def find_unused_path(path: Path, separator: str = "-") -> Path:
    """Return `path`, or the first `<path>-<n>` that does not exist."""
    numbered = (path.with_name(f"{path.name}{separator}{number}") for number in itertools.count(2))
    return next(candidate for candidate in itertools.chain([path], numbered) if not candidate.exists())


def _raise(error: OSError) -> None:
    raise error
