"""Compiled code on disk: what is found again, what is not, and what never does harm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lpu_mlir
from lpu_mlir.cache import MAGIC, DiskCache, cache_root, compiler_version, digest, disk_cache

pytestmark = pytest.mark.sampled

ROOT = Path(__file__).parents[2]
KEY = digest("a program")
CONTENT = bytes(range(256)) * 8


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", bound=1 << 20)


def entry(cache: DiskCache, key: str = KEY) -> Path:
    return cache.root / "object" / key


def test_what_was_put_is_found(cache: DiskCache, tmp_path: Path):
    assert cache.get("object", KEY) is None
    assert cache.put("object", KEY, CONTENT)
    assert cache.get("object", KEY) == CONTENT
    assert cache.get("program", KEY) is None
    assert cache.get("object", digest("another")) is None
    assert DiskCache(tmp_path / "cache", bound=1 << 20).get("object", KEY) == CONTENT
    info = cache.info()
    assert info.hits == {"object": 1}
    assert info.misses == {"object": 2, "program": 1}
    assert info.entries == 1
    assert info.bytes == entry(cache).stat().st_size > len(CONTENT)


def test_a_second_put_replaces(cache: DiskCache):
    assert cache.put("object", KEY, b"one")
    assert cache.put("object", KEY, b"two")
    assert cache.get("object", KEY) == b"two"
    assert cache.info().entries == 1


def test_empty_content_is_content(cache: DiskCache):
    assert cache.put("object", KEY, b"")
    assert cache.get("object", KEY) == b""


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:5],
        lambda data: data[: len(MAGIC)],
        lambda data: data[: len(MAGIC) + 32],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        flip(0),
        flip(len(MAGIC) + 3),
        flip(len(MAGIC) + 32),
        flip(1000),
        lambda data: b"\x7fELF" + bytes(4000),
        lambda data: b"\x80\x04\x95" + bytes(100),
    ],
)
def test_a_damaged_entry_is_missing_and_removed(
    cache: DiskCache, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
):
    cache.put("object", KEY, CONTENT)
    path = entry(cache)
    path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level("INFO", "lpu_mlir.cache"):
        assert cache.get("object", KEY) is None
    assert "damaged" in caplog.text
    assert not path.exists()
    assert cache.put("object", KEY, CONTENT)
    assert cache.get("object", KEY) == CONTENT


def test_an_entry_under_another_name_is_foreign(cache: DiskCache):
    cache.put("object", KEY, CONTENT)
    other = digest("another program")
    entry(cache).rename(entry(cache, other))
    assert cache.get("object", other) is None
    assert not entry(cache, other).exists()


def test_a_directory_in_the_place_of_an_entry(cache: DiskCache):
    cache.put("object", digest("first"), b"")
    entry(cache).mkdir()
    assert cache.get("object", KEY) is None
    assert not cache.put("object", KEY, CONTENT)
    assert cache.get("object", digest("first")) == b""


# --- the bound ----------------------------------------------------------------------------------


def test_what_was_not_used_for_longest_goes(tmp_path: Path):
    cache = DiskCache(tmp_path, bound=16_000)
    keys = [digest(str(i)) for i in range(30)]
    for age, key in enumerate(keys[:10]):
        assert cache.put("object", key, bytes(1000))
        os.utime(entry(cache, key), (1000 + age, 1000 + age))
    assert cache.get("object", keys[0]) is not None  # now the one that was used last
    for key in keys[10:16]:
        assert cache.put("object", key, bytes(1000))
        assert cache.info().bytes <= 16_000
    assert entry(cache, keys[0]).exists()
    assert not entry(cache, keys[1]).exists()
    assert entry(cache, keys[15]).exists()
    for key in keys[16:]:
        assert cache.put("object", key, bytes(1000))
        assert cache.info().bytes <= 16_000
    assert cache.info().entries > 10


def test_more_than_the_bound_is_not_kept(tmp_path: Path):
    cache = DiskCache(tmp_path, bound=1000)
    assert cache.put("object", KEY, bytes(100))
    assert not cache.put("object", digest("large"), bytes(1000))
    assert cache.get("object", KEY) == bytes(100)


def test_what_another_process_wrote_counts(tmp_path: Path):
    first, second = (DiskCache(tmp_path, bound=32_000) for _ in range(2))
    for i in range(64):
        assert (first, second)[i % 2].put("object", digest(str(i)), bytes(1000))
        assert first.info().bytes <= 32_000 + 2 * 32_000 // 16


def test_files_of_processes_that_died_are_removed(cache: DiskCache):
    cache.put("object", KEY, CONTENT)
    new, old = (entry(cache).with_name(f".new-{name}") for name in ("1-a", "2-b"))
    new.write_bytes(b"begun")
    old.write_bytes(b"begun")
    os.utime(old, (1000, 1000))
    assert cache.info().entries == 1
    assert DiskCache(cache.root.parent, bound=1 << 20).put("object", digest("other"), b"")
    assert new.exists()
    assert not old.exists()


def test_clear(cache: DiskCache):
    for i in range(4):
        cache.put("object", digest(str(i)), CONTENT)
        cache.put("program", digest(str(i)), CONTENT)
    (cache.root.parent / "weights").write_bytes(b"not ours to remove")
    cache.clear()
    assert cache.info().entries == 0
    assert (cache.root.parent / "weights").exists()
    assert cache.put("object", KEY, CONTENT)


# --- directories --------------------------------------------------------------------------------


def test_off(tmp_path: Path):
    cache = DiskCache(tmp_path / "cache", bound=1 << 20, enabled=False)
    assert not cache.put("object", KEY, CONTENT)
    assert cache.get("object", KEY) is None
    assert not (tmp_path / "cache").exists()


def test_a_file_in_the_place_of_the_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "cache").write_text("a file")
    cache = DiskCache(tmp_path / "cache", bound=1 << 20)
    assert cache.get("object", KEY) is None
    with caplog.at_level("INFO", "lpu_mlir.cache"):
        assert not cache.put("object", KEY, CONTENT)
    assert "not kept" in caplog.text
    assert cache.info().entries == 0
    cache.clear()


def test_nobody_else_can_read_or_write(cache: DiskCache):
    cache.put("object", KEY, CONTENT)
    modes = [path.stat().st_mode & 0o777 for path in (cache.root, entry(cache).parent)]
    assert modes == [0o700, 0o700]
    assert entry(cache).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_where_others_may_write_nothing_is_believed(cache: DiskCache, mode: int):
    cache.put("object", KEY, CONTENT)
    cache.root.chmod(mode)
    assert cache.get("object", KEY) is None
    assert not cache.put("object", digest("other"), CONTENT)
    cache.root.chmod(0o755)
    assert cache.get("object", KEY) == CONTENT


UNWRITABLE = """
import os, sys
from pathlib import Path
from lpu_mlir.cache import DiskCache
if os.geteuid() == 0:
    os.setuid(65534)  # for the administrator there is no directory that is read-only
cache = DiskCache(Path(sys.argv[1]), bound=1 << 20)
found = cache.get("object", sys.argv[2])
print(None if found is None else len(found), cache.put("object", "0" * 64, b"x"))
"""


def run(program: str, *arguments: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        env={**os.environ, "LPU_MLIR_CACHE": "1", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


@pytest.fixture
def readable_root(tmp_path: Path) -> Path:
    """A directory that other users can reach."""
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.geteuid() and path.is_relative_to("/tmp"):
            path.chmod(path.stat().st_mode | 0o055)
    return tmp_path


def test_a_directory_that_is_read_only(readable_root: Path):
    cache = DiskCache(readable_root / "cache", bound=1 << 20)
    cache.put("object", KEY, CONTENT)
    entry(cache).chmod(0o444)
    for path in (cache.root.parent, cache.root, entry(cache).parent):
        path.chmod(0o555)
    try:
        assert run(UNWRITABLE, str(readable_root / "cache"), KEY) == f"{len(CONTENT)} False"
        assert entry(cache).exists()
    finally:
        for path in (cache.root.parent, cache.root, entry(cache).parent):
            path.chmod(0o755)


def test_a_directory_that_cannot_be_made(readable_root: Path):
    readable_root.chmod(0o555)
    try:
        assert run(UNWRITABLE, str(readable_root / "a" / "b"), KEY) == "None False"
    finally:
        readable_root.chmod(0o755)


FILL = """
import sys
from pathlib import Path
from lpu_mlir.cache import DiskCache, digest
cache = DiskCache(Path(sys.argv[1]), bound=200_000)
wrong = 0
for turn in range(300):
    key = digest(str(turn % 60))
    content = key.encode() * (16 + turn % 60)
    found = cache.get("object", key)
    wrong += found not in (None, content)
    if found is None:
        wrong += not cache.put("object", key, content)
print(wrong, sum(cache.hits.values()) > 0)
"""


def test_processes_fill_one_cache(tmp_path: Path):
    command = [sys.executable, "-c", FILL, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        said, _ = process.communicate(timeout=120)
        assert said.split() == ["0", "True"]
        assert process.returncode == 0
    cache = DiskCache(tmp_path, bound=200_000)
    assert 0 < cache.info().bytes <= 200_000 + 4 * 200_000 // 16
    assert not list(cache.root.rglob(".new-*"))


# --- keys and settings --------------------------------------------------------------------------


def test_parts_of_a_key_do_not_run_together():
    keys = [digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", ""), digest()]
    assert len(set(keys)) == len(keys)
    assert digest("ab", b"c") == digest("ab", "c")


def test_the_sources_are_part_of_the_version():
    assert compiler_version().startswith(f"{lpu_mlir.__version__}-")
    assert compiler_version() == run("from lpu_mlir.cache import *; print(compiler_version())")


def test_an_edit_of_a_source_changes_the_version(tmp_path: Path):
    package = tmp_path / "lpu_mlir"
    for name in ("__init__.py", "cache.py", "logs.py"):
        package.mkdir(exist_ok=True)
        (package / name).write_bytes((ROOT / "lpu_mlir" / name).read_bytes())
    program = "from lpu_mlir.cache import compiler_version; print(compiler_version())"
    before = run(program, PYTHONPATH=str(tmp_path))
    with (package / "logs.py").open("a") as file:
        file.write("\n")
    assert run(program, PYTHONPATH=str(tmp_path)) != before != compiler_version()


def test_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("LPU_MLIR_CACHE_DIR", str(tmp_path / "here"))
    assert cache_root() == tmp_path / "here"
    monkeypatch.delenv("LPU_MLIR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "lpu_mlir"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "lpu_mlir"


SHOW = "import lpu_mlir; i = lpu_mlir.cache_info(); print(i.directory, i.enabled, i.bound)"


def test_settings_of_a_process(tmp_path: Path):
    environment = {"LPU_MLIR_CACHE_DIR": str(tmp_path), "LPU_MLIR_CACHE_BYTES": "12345"}
    assert run(SHOW, **environment) == f"{tmp_path} True 12345"
    assert run(SHOW, LPU_MLIR_CACHE="0", **environment) == f"{tmp_path} False 12345"


@pytest.mark.parametrize(
    "setting", [{"LPU_MLIR_CACHE": "no"}, {"LPU_MLIR_CACHE_BYTES": "1 GB"}], ids=str
)
def test_a_setting_that_means_nothing(setting: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    disk_cache.cache_clear()
    try:
        with pytest.raises(ValueError, match=f"{next(iter(setting))} is .*, expected"):
            disk_cache()
    finally:
        disk_cache.cache_clear()


def test_neither_torch_nor_llvm_is_needed():
    program = f"{SHOW}; import sys; print(*{{'torch', 'xdsl', 'llvmlite'}} & set(sys.modules))"
    assert len(run(program).splitlines()) == 1
