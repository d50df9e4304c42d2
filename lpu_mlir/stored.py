"""Compiled graphs in AOTAutogradCache, so that another process neither traces nor compiles again.

PyTorch's file has a `StoredGraph` among the rest of what AOTAutograd found; of ours that is a key
and nothing else.  The program is under that key in our own cache: plain data, which `codec.py`
decodes.  What PyTorch does not find, or we do not, is compiled.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from time import perf_counter
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._inductor.output_code import OutputCode
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch._subclasses.fake_tensor import unset_fake_temporarily

from lpu_mlir.cache import compiler_version, digest, disk_cache
from lpu_mlir.frontend import calls, interface
from lpu_mlir.frontend.uses import Use
from lpu_mlir.interpreter.native.compile import code_version, host
from lpu_mlir.logs import is_wanted, logger
from lpu_mlir.options import Options
from lpu_mlir.report import CompiledGraph, Fallback, begin_graph
from lpu_mlir.runtime import host_program, signature
from lpu_mlir.runtime.codec import Codec
from lpu_mlir.runtime.executable import Executable
from lpu_mlir.runtime.host_call import Operator
from lpu_mlir.runtime.layout import Layout
from lpu_mlir.runtime.native import NativeProgram

LOG, GRAPH = logger("cache"), logger("graph")

KIND = "program"
"""What programs are called in our cache."""


@dataclass(frozen=True)
class Stored:
    """All that another process must know of a compiled graph."""

    signature: signature.Signature
    program: host_program.HostProgram
    uses: tuple[Use, ...]
    fallbacks: tuple[Fallback, ...]


CODEC = Codec(
    [
        *(Stored, Fallback, Use, Layout, Operator),
        *(signature.Signature, signature.Binding, *signature.OUTPUTS),
        *(interface.TensorInput, interface.ExtentInput, interface.FloatInput),
        *(interface.IgnoredInput, calls.Operand, calls.Item, calls.Comparison),
        *(host_program.HostProgram, host_program.HostFunction, *host_program.STEPS),
        *(host_program.Kernel, host_program.Fixed, host_program.Access),
    ]
)
"""The classes of which stored programs consist."""


# --- when ---------------------------------------------------------------------------------------


def cache_tag(options: Options) -> str | None:
    """What must be the same, beside what PyTorch looks at, for a graph to come from the cache.

    None if graphs are neither to be kept nor to be looked for.
    """
    if options.interpreter != "native" or not disk_cache().enabled:
        return None
    if reason := _reason_against():
        LOG.info("graphs are compiled anew: %s", reason)
        return None
    threads = str(torch.get_num_threads())
    return digest(compiler_version(), code_version(), repr(host()), repr(options), threads)


def _reason_against() -> str | None:
    if is_wanted("ir") or is_wanted("fuse"):
        return "the compiler is to say what it does"
    return _untrusted(cache_dir())


def _untrusted(directory: str) -> str | None:
    """Why PyTorch's files in a directory are not to be unpickled; None if they may be."""
    status = os.stat(directory)
    if status.st_uid not in (os.geteuid(), 0):
        return f"{directory} belongs to another user"
    return f"{directory} is writable by everybody" if status.st_mode & stat.S_IWOTH else None


# --- graphs -------------------------------------------------------------------------------------


@dataclass
class StoredGraph(OutputCode):
    """A compiled graph that AOTAutogradCache can keep: there it has only the key."""

    key: str | None = None
    """None if the program could not be kept."""
    executable: Executable | None = None

    def __post_init__(self) -> None:
        self._boxed_call = True  # of the object, not of the class: wrappers copy its attributes

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        assert self.executable is not None
        assert isinstance(inputs, list)
        return self.executable(inputs)

    def __copy__(self) -> StoredGraph:
        return replace(self)

    def __reduce__(self) -> tuple[type[StoredGraph], tuple[str | None]]:
        return StoredGraph, (self.key,)

    def prepare_for_serialization(self) -> None:
        """Called on a copy that is to be pickled."""
        if not self.key:
            raise BypassAOTAutogradCache("the program is not in the cache of lpu_mlir")
        self.executable = None

    def post_compile(self, example_inputs: object, constants: object, graph_kwargs: object) -> None:
        """Loads the program; called on an object that comes from PyTorch's file.

        Any exception lets PyTorch compile instead.
        """
        start = perf_counter()
        assert self.key is not None
        data = disk_cache().find(KIND, self.key)
        if data is None:
            LOG.info("a graph is compiled anew: its program %s is gone", self.key)
            raise LookupError(self.key)
        with unset_fake_temporarily():
            stored: Stored = CODEC.decode(data)
            program = NativeProgram(stored.program)
        record = begin_graph(from_cache=True)
        record.imported(stored.uses, stored.fallbacks)
        record.seconds["load"] = perf_counter() - start
        self.executable = Executable(stored.signature, program, record.listener)
        LOG.info("a graph comes from the cache: its program is %s", self.key)
        GRAPH.info("%s", record)

    def set_triton_bundle(self, triton_bundle: object) -> None:
        """Nothing of Triton's is in a program."""


def keep(executable: Executable, record: CompiledGraph) -> str | None:
    """Puts a program into our cache; its key, or None if it cannot be kept.

    That is done for every graph, whether PyTorch will keep it or not: PyTorch may have an entry
    whose program is gone, and does not write it again.
    """
    program = executable.program
    assert isinstance(program, NativeProgram)
    fallbacks = tuple(record.fallbacks)
    found = Stored(executable.signature, program.described, record.uses, fallbacks)
    try:
        with unset_fake_temporarily():
            data = CODEC.encode(found)
    except (TypeError, RuntimeError) as error:
        LOG.info("a graph is not kept: %s", error)
        return None
    key = digest(data)
    return key if disk_cache().put(KIND, key, data) else None


@dataclass
class FailedGraph(StoredGraph):
    """The graph of a backward pass that cannot be compiled, which matters only if it runs."""

    error: Exception | None = None

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        assert self.error is not None
        raise self.error


def compile_stored(
    options: Options, gm: fx.GraphModule, example_inputs: Sequence[Any]
) -> StoredGraph:
    """Compiles a graph that is not in the cache."""
    disk_cache().missed(KIND)
    record = begin_graph()
    compile_fx = resolve_name("lpu_mlir.compile:compile_fx")
    executable = compile_fx(gm, example_inputs, options, record=record)
    return StoredGraph(keep(executable, record), executable)


def compile_backward(
    options: Options, gm: fx.GraphModule, example_inputs: Sequence[Any]
) -> StoredGraph:
    """`compile_stored` for a graph that may never run."""
    try:
        return compile_stored(options, gm, example_inputs)
    except Exception as error:
        return FailedGraph(error=error)
