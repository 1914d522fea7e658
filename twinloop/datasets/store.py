"""Folders in object storage: s3://, gs://, az:// through obstore, any other address that fsspec knows for reading.

Every write states what it expects to be there, so that two writers, or one that was thought dead, never overwrite each
other's objects: an object is created where there was none, or replaced where it is still the version that was read.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from twinloop.errors import DatasetError, DiskError, MissingExtra, NoDataset, WrongUse

CONDITIONAL = ("s3", "gs", "gcs", "az", "abfs", "abfss")
"""Protocols whose writes can be made conditional."""

TIMEOUT = "600s"
"""For one object, which is at most 200 MB: 3 Mbit/s are enough."""

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}([^/].*|$)")


def parse_address(place: str | Path) -> str | None:
    """The address of an object store, such as s3://bucket/folder; None for a folder of this machine.

    A `Path` of an address has lost one of its slashes, which is put back.
    """
    found = _ADDRESS.fullmatch(str(place))
    return f"{found[1]}://{found[2].rstrip('/')}" if found else None


@dataclass(frozen=True)
class Stored:
    """An object: its name below the folder, its size, and the version that a replacement must name."""

    name: str
    bytes: int
    version: str


class Changed(DatasetError):
    """An object is there already, or is no longer the version that was read."""


class Folder(Protocol):
    """A folder of named objects."""

    address: str

    def read(self, name: str) -> bytes:
        """The content of an object; raises FileNotFoundError."""

    def head(self, name: str) -> Stored | None:
        """What is known of an object; None where there is none."""

    def open(self, name: str) -> io.RawIOBase:
        """An object as a file that can seek; only what is read is transferred."""

    def list(self, prefix: str = "") -> list[Stored]:
        """Objects whose names begin with a prefix that ends in a slash."""

    def put(self, name: str, content: bytes | Path, *, replaces: str | None = None) -> str:
        """Create an object, or replace the version that is named; raises `Changed` otherwise. Returns the version."""

    def delete(self, name: str) -> None:
        """Delete an object."""

    def filesystem(self) -> Any:
        """The folder for Arrow: a filesystem of fsspec, and the path of the folder in it."""


def open_folder(address: str) -> Folder:
    """Open a folder in object storage.

    Args:
        address: Such as s3://bucket/folder. Keys and endpoints come from the environment, as the provider's tools take them:
            AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME.

    Returns:
        The folder; nothing has been transferred yet.

    Raises:
        MissingExtra: The package for it is not installed.
        WrongUse: The address names no bucket.
    """
    protocol, _, rest = address.partition("://")
    if not rest:
        raise WrongUse("an address without a bucket", got=address, expected=f"{protocol}://BUCKET/FOLDER")
    if protocol in CONDITIONAL:
        return ObjectFolder(address)
    return FsspecFolder(address)


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Errors of a provider in our words; FileNotFoundError passes where only the object is missing."""
    try:
        yield
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise _no_bucket(address) from error
        raise
    except (OSError, Exception) as error:
        if isinstance(error, (DatasetError, MissingExtra, WrongUse)):
            raise
        raise _explain(address, error) from error


def _explain(address: str, error: Exception) -> DatasetError:
    text, kind = str(error), type(error).__name__
    if "NoSuchBucket" in text or "ContainerNotFound" in text:
        return _no_bucket(address)
    denied = ("PermissionDenied", "Unauthenticated", "PermissionError", "NoCredentials")
    if kind.startswith(denied) or any(
        word in text for word in ("AccessDenied", "403 Forbidden", "401 ", "InvalidAccessKey")
    ):
        return DatasetError(
            f"{address} denies access",
            got=_reason(text),
            remedy="check the keys in the environment and what they may do there: list, get, put and delete",
        )
    return DiskError(
        f"{address} cannot be reached ({_reason(text)})",
        remedy="check the network, the endpoint and the region",
    )


def _no_bucket(address: str) -> NoDataset:
    bucket = address.split("/")[2]
    return NoDataset(
        f"there is no bucket {bucket!r}", got=address, remedy="check the name, the endpoint and the region"
    )


def _reason(text: str) -> str:
    """The line of a provider's answer that a person can use."""
    code, message = re.search(r"<Code>(.*?)</Code>", text), re.search(r"<Message>(.*?)</Message>", text)
    parts = [found[1] for found in (code, message) if found]
    return ": ".join(parts) or text.strip().splitlines()[0]


def _client_options() -> Any:
    """Encryption is left out only where the environment names an endpoint without it, as a server on this machine is."""
    allowed = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true")
    plain = allowed or os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return {"timeout": TIMEOUT, "allow_http": plain}


class ObjectFolder:
    """A folder in S3, Google Cloud Storage or Azure, through obstore: one wheel, with conditional writes."""

    def __init__(self, address: str) -> None:
        try:
            import obstore
        except ImportError as error:
            raise MissingExtra("a dataset in object storage", "obstore", "cloud") from error
        self.address = address
        self._obstore = obstore
        with _explained(address):
            self._store: Any = obstore.store.from_url(address, client_options=_client_options())

    def read(self, name: str) -> bytes:
        """The content of an object."""
        with _explained(self.address):
            return bytes(self._obstore.get(self._store, name).bytes())

    def head(self, name: str) -> Stored | None:
        """What is known of an object; None where there is none."""
        try:
            with _explained(self.address):
                found = self._obstore.head(self._store, name)
        except FileNotFoundError:
            return None
        return Stored(name, int(found["size"]), str(found["e_tag"]))

    def open(self, name: str) -> Any:
        """An object as a file that can seek."""
        found = self.head(name)
        if found is None:
            raise FileNotFoundError(f"{self.address}/{name}")
        return RangeFile(self, name, found.bytes)

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Bytes `start` to `end` of an object."""
        with _explained(self.address):
            return bytes(self._obstore.get_range(self._store, name, start=start, end=end))

    def list(self, prefix: str = "") -> list[Stored]:
        """Objects below a prefix."""
        with _explained(self.address):
            pages = self._obstore.list(self._store, prefix.rstrip("/") or None)
            return [Stored(str(o["path"]), int(o["size"]), str(o["e_tag"])) for page in pages for o in page]

    def put(self, name: str, content: bytes | Path, *, replaces: str | None = None) -> str:
        """Create an object, or replace the version that is named."""
        mode: Any = "create" if replaces is None else {"e_tag": replaces}
        from obstore.exceptions import AlreadyExistsError, NotFoundError, PreconditionError

        try:
            with _explained(self.address):
                try:
                    done = self._obstore.put(self._store, name, content, mode=mode, use_multipart=False)
                except (AlreadyExistsError, PreconditionError, NotFoundError) as error:
                    if "NoSuchBucket" in str(error):
                        raise
                    raise Changed(f"{self.address}/{name} has been written by someone else") from error
        except FileNotFoundError as error:
            raise Changed(f"{self.address}/{name} has been deleted by someone else") from error
        return str(done["e_tag"])

    def delete(self, name: str) -> None:
        """Delete an object."""
        with _explained(self.address):
            self._obstore.delete(self._store, name)

    def filesystem(self) -> Any:
        """A filesystem of fsspec with this folder as its root, and an empty path."""
        from obstore.fsspec import FsspecStore

        found, _, rest = self.address.partition("://")
        protocol: Any = {"gcs": "gs"}.get(found, found)
        bucket, _, path = rest.partition("/")
        files = FsspecStore(protocol, client_options=_client_options())
        return files, f"{bucket}/{path}".rstrip("/")


class RangeFile(io.RawIOBase):
    """An object as a file of which only the ranges that are read are transferred."""

    def __init__(self, folder: ObjectFolder, name: str, size: int) -> None:
        self._folder, self._name, self._size, self._at = folder, name, size, 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """The next bytes, in one request."""
        end = self._size if size < 0 else min(self._at + size, self._size)
        if end <= self._at:
            return b""
        found = self._folder.read_range(self._name, self._at, end)
        self._at += len(found)
        return found


class FsspecFolder:
    """A folder that fsspec can read: sftp://, memory://, hf:// and others. It is never written."""

    def __init__(self, address: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise MissingExtra("a dataset at such an address", "fsspec", "cloud") from error
        self.address = address
        with _explained(address):
            self._files, self._root = fsspec.core.url_to_fs(address)

    def read(self, name: str) -> bytes:
        """The content of an object."""
        with _explained(self.address):
            return bytes(self._files.cat_file(f"{self._root}/{name}"))

    def head(self, name: str) -> Stored | None:
        """What is known of an object; None where there is none."""
        try:
            with _explained(self.address):
                found = self._files.info(f"{self._root}/{name}")
        except FileNotFoundError:
            return None
        return Stored(name, int(found["size"]), _version(found))

    def open(self, name: str) -> Any:
        """An object as a file that can seek."""
        with _explained(self.address):
            return self._files.open(f"{self._root}/{name}", "rb")

    def list(self, prefix: str = "") -> list[Stored]:
        """Objects below a prefix."""
        with _explained(self.address):
            found = self._files.find(f"{self._root}/{prefix}", detail=True)
        strip = len(self._root.rstrip("/")) + 1
        return [Stored(path[strip:], int(info["size"]), _version(info)) for path, info in found.items()]

    def put(self, name: str, content: bytes | Path, *, replaces: str | None = None) -> str:
        """Refuse: without conditional writes two writers could lose each other's episodes."""
        raise WrongUse(
            f"{self.address} can be read only: its writes cannot be made conditional",
            expected="s3://, gs:// or az://, or a folder",
        )

    def delete(self, name: str) -> None:
        """Refuse, as `put` does."""
        self.put(name, b"")

    def filesystem(self) -> Any:
        """fsspec's own filesystem, and the folder in it."""
        return self._files, self._root


def _version(info: dict[str, Any]) -> str:
    """Whatever changes with the content."""
    keys = ("ETag", "etag", "e_tag", "md5", "mtime", "modified", "LastModified", "created", "size")
    return str(next((info[key] for key in keys if info.get(key) is not None), ""))
