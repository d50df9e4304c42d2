"""Programs as bytes: what goes in comes out, and nothing else can."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from lpu_mlir.dialects.expr import Expr
from lpu_mlir.frontend.dtypes import TAKEN
from lpu_mlir.runtime.codec import Codec


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any = None


@dataclass(eq=False)
class Place:
    """An object with an identity."""

    name: str


CODEC = Codec([Point, Place])
N, M = Expr.name("s18"), Expr.name("s2")


def again(value: object) -> Any:
    return CODEC.decode(CODEC.encode(value))


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, 0, -1, 1 << 70, 0.1, -0.0, math.inf, -math.inf, "", "ä'\"\n"),
        *(b"", bytes(range(256)), 1 - 2j),
        *((), [], {}, (1, [2, (3,)], {"a": 1, 2: ("b",)}), [True, 1, 1.0]),
        *(torch.bfloat16, torch.strided, torch.channels_last, torch.device("cpu")),
        *(Expr.const(0), Expr.const(-7), N, N * M * 3 - N + 5),
        *(N.floordiv(8) + Expr.min(N, M * 2), Expr.max(N - 1, Expr.min(M.floordiv(N), 3))),
        Point(Point(1, (2, None)), [Point("r", 7)]),
    ],
    ids=repr,
)
def test_round_trip(value: object):
    found = again(value)
    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value)  # -0.0, and True among numbers


def test_not_a_number():
    assert math.isnan(again((math.nan,))[0])


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.bool_, np.uint8])
@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (2, 3)])
def test_arrays(dtype: type, shape: tuple[int, ...]):
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    found = again({"a": array, "b": array.T})
    for name, expected in (("a", array), ("b", array.T)):
        np.testing.assert_array_equal(found[name], expected)
        assert found[name].dtype == dtype
        assert found[name].flags.writeable


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", sorted(TAKEN, key=str), ids=str)
def test_tensors(dtype: torch.dtype):
    grid = torch.arange(24).remainder(2).to(dtype).reshape(2, 3, 4)
    for tensor in (grid, grid.permute(2, 0, 1), grid[0, 0, 0], grid[:, 3:]):
        found = again(tensor)
        assert found.dtype == dtype
        assert found.tolist() == tensor.tolist()
    transposed = again(grid.permute(2, 0, 1))
    assert transposed.stride() == grid.permute(2, 0, 1).stride()


def test_an_object_stays_one():
    place = Place("arena")
    first, second, other = again([Point(place), (place,), Place("arena")])
    assert first.x is second[0]
    assert other is not first.x


def test_the_same_for_every_process():
    values = [{"b": 1, "a": (N, b"x")}, Point(np.zeros(3))]
    assert CODEC.encode(values) == CODEC.encode(values)


@pytest.mark.parametrize("value", [object(), {1, 2}, lambda: 0, Codec, range(3)])
def test_what_has_no_encoding(value: object):
    with pytest.raises(TypeError, match="cannot be kept"):
        CODEC.encode([value])


def as_bytes(value: object) -> bytes:
    text = json.dumps(value).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x05",
        pickle.dumps(Point(1)),
        CODEC.encode([Point(N), b"blob"])[:-20],
        as_bytes(["o", 9]),
        as_bytes(["o", 0]),
        as_bytes(["o", 1, "a", "b"]),
        as_bytes(["r", 0]),
        as_bytes(["T", "load"]),
        as_bytes(["d", "key"]),
        as_bytes(["__import__", "os"]),
    ],
)
def test_what_is_no_encoding_raises(data: bytes):
    with pytest.raises((ValueError, LookupError, TypeError)):
        CODEC.decode(data)


def test_classes_are_told_apart_by_their_codec():
    with pytest.raises(TypeError, match="a Place cannot be kept"):
        Codec([Point]).encode(Place("arena"))
