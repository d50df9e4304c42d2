"""What was compiled, kept on disk between processes: bytes under a kind and a key, by content.

    LPU_MLIR_CACHE=0          switches it off
    LPU_MLIR_CACHE_DIR        where it is (default: lpu_mlir in $XDG_CACHE_HOME or ~/.cache)
    LPU_MLIR_CACHE_BYTES      how large it may grow (default: 1 GiB)

An entry is a file `compiled/KIND/KEY`: a magic number, a checksum of kind, key and content, and the
content.  It is written under another name and renamed, so that a reader sees all of it or nothing.
What is cut off, changed or not ours is removed, and counts as missing.  When the bound is exceeded
the entries that were not used for longest go.  Any number of processes may share a directory, and a
directory that cannot be made, read or written only costs time.

The content is machine code that will run: a directory that other users may write to is not used.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import time

from lpu_mlir import __version__
from lpu_mlir.logs import logger

SWITCH, DIRECTORY, BOUND = "LPU_MLIR_CACHE", "LPU_MLIR_CACHE_DIR", "LPU_MLIR_CACHE_BYTES"

MAGIC = b"lpu_mlir cache 1"
_HEADER_BYTES = len(MAGIC) + hashlib.sha256().digest_size
_TEMPORARY = ".new-"
_ABANDONED = 3600
"""Seconds after which a file that was begun and never renamed belongs to a process that died."""

LOG = logger("cache")


@dataclass(frozen=True)
class CacheInfo:
    """The state of the cache: what is on disk, and what this process found there."""

    directory: str
    enabled: bool
    entries: int
    bytes: int
    """On disk, headers included."""
    bound: int
    """The most bytes that are kept."""
    hits: Mapping[str, int]
    """Kind -> how often an entry was found."""
    misses: Mapping[str, int]
    """Kind -> how often it was not."""


def digest(*parts: str | bytes) -> str:
    """A key from what an entry depends on, each part by itself: ("ab", "c") is not ("a", "bc")."""
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    return hashed.hexdigest()


@cache
def compiler_version() -> str:
    """The version of this package and a hash of its sources, so that edits to them count.

    It takes 2 ms, once in a process.
    """
    root = Path(__file__).parent
    sources = sorted(root.rglob("*.py"))
    parts = (part for path in sources for part in (str(path.relative_to(root)), path.read_bytes()))
    return f"{__version__}-{digest(*parts)}"


class DiskCache:
    """Entries in a directory, of at most `bound` bytes together; threads may use it at once."""

    def __init__(self, directory: Path, bound: int, enabled: bool = True):
        self.root, self.bound, self.enabled = directory / "compiled", bound, enabled
        self.hits, self.misses = Counter[str](), Counter[str]()
        self._room: int | None = None
        """Bytes that may be written before the directory is looked at again; None at first."""
        self._lock = threading.Lock()

    # --- entries --------------------------------------------------------------------------------

    def get(self, kind: str, key: str) -> bytes | None:
        """The content of an entry; None if there is none, or none that can be trusted."""
        found = self.find(kind, key)
        if found is None:
            self.missed(kind)
        return found

    def find(self, kind: str, key: str) -> bytes | None:
        """`get`, where what is not there will be `missed` later."""
        found = self._read(kind, key) if self.enabled and self._is_private() else None
        if found is not None:
            with self._lock:
                self.hits[kind] += 1
        return found

    def missed(self, kind: str) -> None:
        """Something had to be made anew."""
        with self._lock:
            self.misses[kind] += 1

    def put(self, kind: str, key: str, content: bytes) -> bool:
        """Keeps an entry; whether that succeeded."""
        size = _HEADER_BYTES + len(content)
        if not self.enabled:
            return False
        if size > self.bound:
            LOG.info("%s/%s is not kept: it has %d bytes", kind, key, size)
            return False
        try:
            self._make_room(size)
            self._write(self.root / kind / key, _header(kind, key, content), content)
        except OSError as error:
            LOG.info("%s/%s is not kept: %s", kind, key, error)
            return False
        return True

    def clear(self) -> None:
        """Removes all entries; OSError if that is not allowed."""
        for path, _ in self._files():
            path.unlink(missing_ok=True)
        with self._lock:
            self._room = None

    def info(self) -> CacheInfo:
        sizes = [status.st_size for path, status in self._files() if not _is_temporary(path)]
        return CacheInfo(
            directory=str(self.root.parent),
            enabled=self.enabled,
            entries=len(sizes),
            bytes=sum(sizes),
            bound=self.bound,
            hits=dict(self.hits),
            misses=dict(self.misses),
        )

    # --- files ----------------------------------------------------------------------------------

    def _read(self, kind: str, key: str) -> bytes | None:
        path = self.root / kind / key
        try:
            data = path.read_bytes()
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                LOG.info("%s/%s cannot be read: %s", kind, key, error)
            return None
        content = data[_HEADER_BYTES:]
        if data[:_HEADER_BYTES] != _header(kind, key, content):
            LOG.info("%s/%s is damaged and is removed", kind, key)
            _remove(path)
            return None
        try:
            os.utime(path)
        except OSError:
            pass  # a directory of which one may only read: nothing is removed from it either
        return content

    def _write(self, path: Path, header: bytes, content: bytes) -> None:
        if not self._is_private():
            self.root.parent.mkdir(parents=True, exist_ok=True)
            self.root.mkdir(mode=0o700, exist_ok=True)
            if not self._is_private():
                raise PermissionError(f"{self.root} is writable by others, or not the user's own")
        path.parent.mkdir(mode=0o700, exist_ok=True)
        new = path.with_name(f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}")
        try:
            with open(new, "xb", opener=_private) as file:
                file.write(header)
                file.write(content)
            new.replace(path)
        except BaseException:
            _remove(new)
            raise

    def _is_private(self) -> bool:
        """Whether nobody but the user and the administrator may have put files there."""
        try:
            status = self.root.stat()
        except OSError:
            return False
        others = stat.S_IWGRP | stat.S_IWOTH
        return status.st_uid in (os.geteuid(), 0) and not status.st_mode & others

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """All files and their status, also such as were only begun."""
        try:
            kinds = [entry.path for entry in os.scandir(self.root) if entry.is_dir()]
            entries = [entry for kind in kinds for entry in os.scandir(kind)]
        except OSError:
            return
        for entry in entries:
            try:
                yield Path(entry.path), entry.stat(follow_symlinks=False)
            except OSError:
                pass  # another process removed it

    # --- the bound ------------------------------------------------------------------------------

    def _make_room(self, size: int) -> None:
        """Removes entries if another one of `size` bytes would be too much."""
        with self._lock:
            if self._room is None or size > self._room:
                self._room = self._trim(size)
            self._room -= size

    def _trim(self, size: int) -> int:
        """Removes the oldest entries until there is room for `size` bytes; the bytes of room.

        No more than a sixteenth of the bound, since other processes write meanwhile; and if
        anything is removed, then an eighth, so that it is not done again for the next entry.
        """
        files = sorted(self._files(), key=lambda file: file[1].st_mtime)
        total = sum(status.st_size for _, status in files)
        target = self.bound - size
        if total > target:
            target = max(0, target - self.bound // 8)
        old = time() - _ABANDONED
        for path, status in files:
            abandoned = _is_temporary(path) and status.st_mtime < old
            if abandoned or (total > target and not _is_temporary(path)):
                _remove(path)
                total -= status.st_size
        return max(size, min(self.bound - total, self.bound // 16))


def _header(kind: str, key: str, content: bytes) -> bytes:
    return MAGIC + bytes.fromhex(digest(kind, key, content))


def _is_temporary(path: Path) -> bool:
    return path.name.startswith(_TEMPORARY)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        LOG.debug("%s is not removed: %s", path, error)


# --- the cache of this process ------------------------------------------------------------------


def _bound() -> int:
    text = os.environ.get(BOUND, str(1 << 30))
    if not text.isdecimal():
        raise ValueError(f"{BOUND} is {text!r}, expected a number of bytes")
    return int(text)


def _enabled() -> bool:
    text = os.environ.get(SWITCH, "1")
    if text not in ("0", "1"):
        raise ValueError(f"{SWITCH} is {text!r}, expected 0 or 1; {DIRECTORY} says where it is")
    return text == "1"


def cache_root() -> Path:
    """The directory for what this package keeps: $LPU_MLIR_CACHE_DIR, or one in the user's.

    RuntimeError if the user has no home directory.
    """
    if given := os.environ.get(DIRECTORY):
        return Path(given).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lpu_mlir"


@cache
def disk_cache() -> DiskCache:
    """The cache of this process, as the environment variables said when it was first asked for."""
    try:
        return DiskCache(cache_root(), _bound(), _enabled())
    except RuntimeError as error:
        LOG.info("nothing is kept between processes: %s", error)
        return DiskCache(Path(os.devnull), 0, enabled=False)


def cache_info() -> CacheInfo:
    """What the cache has on disk, and what this process found in it."""
    return disk_cache().info()


def clear_cache() -> None:
    """Removes all compiled code from the cache, for all processes that share it.

    What is loaded stays; it is compiled anew by the next process, or after
    `torch.compiler.reset()`.  OSError if the user may not remove what is there.
    """
    disk_cache().clear()
