"""From LLVM text to machine code that can be called: optimised, made an object, loaded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from lpu_mlir.cache import digest, disk_cache
from lpu_mlir.interpreter.native.machine import Machine

llvm: Any = import_module("llvmlite.binding")  # it has no types

MakeObject: TypeAlias = Callable[[str, Machine], bytes]
"""From LLVM text to the bytes of an object file."""

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""Where Linux says how large caches are, in K."""

OPTIMISATION = 2
"""LLVM's level for the passes over its IR and for code generation."""


@cache
def _initialize(native: bool) -> None:
    """Prepares LLVM for this machine alone, which takes less memory, or for every machine."""
    if native:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@cache
def host() -> Machine:
    """This machine: its processor, with every feature that it has."""
    features: Any = llvm.get_host_cpu_features()
    wide, middle = features.get("avx512vl", False), features.get("avx2", False)
    return Machine(
        name="host",
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        vector_bytes=64 if wide else 32 if middle else 16,
        vector_registers=16 if middle and not wide else 32,
        features=features.flatten(),
        cache_bytes=_cache_bytes() or Machine.cache_bytes,
    )


def _cache_bytes() -> int:
    """The size of the largest cache; 0 if the system does not say."""
    sizes = [path.read_text().strip() for path in CACHES.glob("index*/size")]
    return max((int(size[:-1]) << 10 for size in sizes if size.endswith("K")), default=0)


def _target_machine(machine: Machine) -> Any:
    _initialize(native=machine.triple == llvm.get_process_triple())
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu,
        features=machine.features,
        opt=OPTIMISATION,
        reloc="pic",
        codemodel="small",
    )


def object_for(text: str, machine: Machine) -> bytes:
    """The object file for a module of LLVM text.

    Loops stay as they are written: kernels choose their vectors themselves.  RuntimeError with
    LLVM's words for text that is not right.
    """
    target = _target_machine(machine)
    context = llvm.create_context()
    module = llvm.parse_assembly(text, context)
    module.triple = machine.triple
    module.data_layout = str(target.target_data)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(OPTIMISATION)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_interleaving = False
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(target, tuning)
    passes = builder.getModulePassManager()
    try:
        passes.run(module, builder)
    finally:
        _dispose(passes)
    return target.emit_object(module)


def _dispose(passes: Any) -> None:
    """Frees a pass manager: its `close` calls a `_dispose` that does nothing, that of the first of
    its base classes, so that 0.2 MB would be left of every module."""
    llvm.newpassmanagers.NewPassManager._dispose(passes)
    passes.detach()


@cache
def code_version() -> str:
    """What decides, beside text and machine, which code comes out: LLVM, and this file."""
    binding = import_module("llvmlite")
    return digest(binding.__version__, str(llvm.llvm_version_info), Path(__file__).read_bytes())


def cached_object(text: str, machine: Machine) -> bytes:
    """`object_for`, unless the cache on disk has it."""
    key = digest(text, repr(machine), code_version())
    image = disk_cache().get("object", key)
    if image is None:
        image = object_for(text, machine)
        disk_cache().put("object", key, image)
    return image


class Code:
    """Functions in memory, by name; their addresses are valid as long as the object is alive."""

    def __init__(self, jit: Any, tracker: Any, names: Sequence[str]):
        self._jit, self._tracker = jit, tracker
        self.addresses: Mapping[str, int] = {name: tracker[name] for name in names}


IMAGES = 128
"""So many texts are not compiled again while this process lives."""

LINKS = 64
"""So many libraries are linked by one JIT: it keeps 9 KB of each, unloaded ones too, and goes when
the last of them does."""


class Loader:
    """Makes code out of text; equal code is shared for as long as somebody holds it."""

    def __init__(self, machine: Machine, make_object: MakeObject = object_for):
        self.machine = machine

        def image(text: str) -> bytes:
            return make_object(text, machine)

        self.image = lru_cache(IMAGES)(image)
        """The object file for a module of LLVM text; RuntimeError for text that is not right."""
        self._jit: Any = None
        self._numbers = count()
        self._loaded: WeakValueDictionary[bytes, Code] = WeakValueDictionary()
        self._lock = threading.Lock()

    def load(self, text: str, names: Sequence[str]) -> Code:
        """The functions `names` of a module; it may use what the process exports, such as libm.

        RuntimeError for text that is not right and for functions that are not there.
        """
        return self.load_image(self.image(text), names)

    def load_image(self, image: bytes, names: Sequence[str]) -> Code:
        """The functions `names` of an object file; RuntimeError for what is not there."""
        with self._lock:
            code = self._loaded.get(image)
            if code is None:
                code = self._loaded[image] = self._link(image, names)
            return code

    def _link(self, image: bytes, names: Sequence[str]) -> Code:
        number = next(self._numbers)
        if number % LINKS == 0:
            target = _target_machine(self.machine)
            self._jit = llvm.create_lljit_compiler(target, use_jit_link=True)
        library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name in names:
            library.export_symbol(name)
        tracker = library.link(self._jit, f"library{number}")
        return Code(self._jit, tracker, names)


@cache
def loader() -> Loader:
    """What loads code for this machine."""
    return Loader(host(), cached_object)
