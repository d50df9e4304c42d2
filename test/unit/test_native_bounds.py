"""Machine code touches no byte beside its tensors: each ends where memory that is there ends."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import ctypes, itertools, mmap, sys
import torch
import lpu_mlir
from lpu_mlir.compile import compile_fx
from lpu_mlir.options import Options

torch.set_num_threads(1)
PAGE = mmap.PAGESIZE
protect = ctypes.CDLL(None, use_errno=True).mprotect
memory = []

def at_the_end(tensor):
    '''The same values and strides, right before a page that must not be touched.'''
    storage = tensor.untyped_storage().nbytes()
    pages = -(-max(storage, 1) // PAGE)
    mapped = mmap.mmap(-1, (pages + 1) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    assert protect(ctypes.c_void_p(start + pages * PAGE), ctypes.c_size_t(PAGE), 0) == 0
    memory.append(mapped)
    whole = torch.frombuffer(mapped, dtype=torch.uint8)[pages * PAGE - storage : pages * PAGE]
    whole.copy_(torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()))
    moved = torch.empty(0, dtype=tensor.dtype).set_(
        whole.untyped_storage(),
        (pages * PAGE - storage) // tensor.itemsize + tensor.storage_offset(),
        tensor.shape, tensor.stride(),
    )
    assert torch.equal(moved, tensor)
    return moved

def check(function, tensors):
    given = [at_the_end(tensor) for tensor in tensors]
    expected = [tensor.clone() for tensor in tensors]
    function(expected)
    torch._dynamo.reset()
    with lpu_mlir.Report() as report:
        torch.compile(function, backend="lpu_mlir", dynamic=False, fullgraph=True)(given)
    assert report.graphs and not report.fallbacks
    for ours, theirs in zip(given, expected):
        torch.testing.assert_close(ours, theirs)
"""

CONVERSIONS = """
def copies(tensors):
    for source, target in zip(tensors[::2], tensors[1::2]):
        target.copy_(source)

def pairs(source, target):
    for n in (1, 2, 3, 5, 8, 9, 15, 17, 31, 33, 65):
        yield torch.arange(n).remainder(3).to(source)
        yield torch.zeros(n, dtype=target)
    for rows in (3, 9, 17):
        yield torch.arange(2 * rows).view(2, rows).remainder(3).to(source).t()
        yield torch.zeros(2, rows, dtype=target).t()

names = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
source = getattr(torch, sys.argv[1])
for name in names:
    check(copies, list(pairs(source, getattr(torch, name))))
"""

KERNELS = """
def kernels(tensors):
    x, y, vector, row, total, out = tensors
    out.copy_(x @ y)
    row.copy_(vector @ y)
    total.copy_((x * x).sum(1))
    vector.copy_(torch.softmax(vector, 0))
    x.copy_(torch.nn.functional.layer_norm(x, x.shape[1:]) + x.flip(0))
    y.copy_(y.cumsum(0) + y[torch.arange(y.shape[0]) // 2])

for m, k, n in itertools.product((1, 2, 3, 9, 17), repeat=3):
    if (m * 7 + k * 3 + n) % 4 == 0:
        dtype = getattr(torch, sys.argv[1])
        shapes = [(m, k), (k, n), (k,), (n,), (m,), (m, n)]
        check(kernels, [torch.randint(-3, 4, s).to(dtype) for s in shapes])
"""


def run(program: str, argument: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM + program)
    done = subprocess.run(
        [sys.executable, str(file), argument], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("source", ["int64", "int32", "int16", "bool", "float32", "float64"])
def test_conversions(source: str, tmp_path: Path):
    run(CONVERSIONS, source, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_kernels(dtype: str, tmp_path: Path):
    run(KERNELS, dtype, tmp_path)
