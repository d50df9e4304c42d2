"""Programs as bytes, and back: dataclasses, numbers, expressions and arrays, as JSON with blobs.

    8 bytes           how long the JSON is, little endian
    JSON              the value
    blobs             bytes that the JSON refers to, each by where it starts and ends

`null`, `true`, numbers and strings stand for themselves.  Everything else is an array that starts
with its kind: `["o", 3, ...]` is an object of the fourth class of the codec with its fields in
order, `["r", 7]` the object that was the eighth to begin.  To decode makes such values and nothing
else: no code runs that bytes could name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lpu_mlir.dialects.expr import Call, Expr

Json: TypeAlias = Any

_LENGTH = 8
_TORCH = (torch.dtype, torch.layout, torch.memory_format)


class Codec:
    """Values made of the dataclasses `classes`; their order is part of the format."""

    def __init__(self, classes: Sequence[type[Any]]):
        self.classes = classes
        self.numbers = {kind: n for n, kind in enumerate(classes)}
        self.names = {kind: [f.name for f in fields(kind) if f.init] for kind in classes}

    def encode(self, value: object) -> bytes:
        """The value as bytes; TypeError for what has no encoding.

        An object that is referred to several times is still one object when it is decoded.
        """
        writer = _Writer(self)
        text = json.dumps(writer.write(value), separators=(",", ":")).encode()
        return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *writer.blobs])

    def decode(self, data: bytes) -> Any:
        """The value of some bytes; an exception if they were not encoded by this codec."""
        start = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
        return _Reader(self, memoryview(data)[start:]).read(json.loads(data[_LENGTH:start]))


class _Writer:
    def __init__(self, codec: Codec):
        self.codec = codec
        self.blobs: list[bytes] = []
        self.size = 0
        self.objects: dict[int, int] = {}

    def write(self, value: Any) -> Json:
        if value is None or isinstance(value, str):
            return value
        if type(value) in (bool, int, float):
            return value
        if (number := self.objects.get(id(value))) is not None:
            return ["r", number]
        if is_dataclass(value) and type(value) in self.codec.numbers:
            return self.object(value)
        for kind, write in _WRITE.items():
            if isinstance(value, kind):
                return write(self, value)
        raise TypeError(f"a {type(value).__name__} cannot be kept")

    def object(self, value: Any) -> Json:
        kind = cast("type[Any]", type(value))
        self.objects[id(value)] = len(self.objects)
        parts = [self.write(getattr(value, name)) for name in self.codec.names[kind]]
        return ["o", self.codec.numbers[kind], *parts]

    def blob(self, data: bytes) -> list[int]:
        self.blobs.append(data)
        self.size += len(data)
        return [self.size - len(data), self.size]

    def items(self, values: Sequence[Any]) -> list[Json]:
        return [self.write(value) for value in values]

    def mapping(self, value: Mapping[Any, Any]) -> Json:
        return ["d", *(self.write(part) for item in value.items() for part in item)]

    def array(self, value: NDArray[Any]) -> Json:
        blob = self.blob(np.ascontiguousarray(value).tobytes())
        return ["a", value.dtype.str, list(value.shape), *blob]

    def tensor(self, value: Tensor) -> Json:
        dense = value.detach().resolve_conj().resolve_neg().reshape(-1)
        parts = (value.dtype, tuple(value.shape), value.stride())
        return ["x", *self.items(parts), *self.blob(dense.view(torch.uint8).numpy().tobytes())]

    def expr(self, value: Expr) -> Json:
        constant = value.constant()
        return ["e", *_terms(value)] if constant is None else ["e", constant]


def _terms(value: Expr) -> list[Json]:
    """Each term as its coefficient and its atoms."""
    return [[c, *map(_atom, monomial)] for monomial, c in value.terms]


def _atom(atom: str | Call) -> Json:
    return atom if isinstance(atom, str) else [atom.kind, _terms(atom.lhs), _terms(atom.rhs)]


_WRITE: Mapping[Any, Callable[[_Writer, Any], Json]] = {
    tuple: lambda w, value: ["t", *w.items(value)],
    list: lambda w, value: ["l", *w.items(value)],
    dict: _Writer.mapping,
    Expr: _Writer.expr,
    bytes: lambda w, value: ["b", *w.blob(value)],
    np.ndarray: _Writer.array,
    Tensor: _Writer.tensor,
    complex: lambda w, value: ["c", value.real, value.imag],
    _TORCH: lambda w, value: ["T", str(value).removeprefix("torch.")],
    torch.device: lambda w, value: ["D", str(value)],
}
"""Class -> how its values are written."""


class _Reader:
    def __init__(self, codec: Codec, blobs: memoryview):
        self.codec, self.blobs = codec, blobs
        self.objects: list[Any] = []

    def read(self, value: Json) -> Any:
        if not isinstance(value, list):
            return value
        kind, *parts = cast("list[Json]", value)
        return _READ[kind](self, parts)

    def items(self, values: list[Json]) -> list[Any]:
        return [self.read(value) for value in values]

    def read_tuple(self, parts: list[Json]) -> tuple[Any, ...]:
        return tuple(self.items(parts))

    def read_mapping(self, parts: list[Json]) -> dict[Any, Any]:
        values = iter(self.items(parts))
        return dict(zip(values, values, strict=True))

    def read_object(self, parts: list[Json]) -> Any:
        place = len(self.objects)
        self.objects.append(None)
        number, *given = parts
        kind = cast("Callable[..., Any]", self.codec.classes[number])
        self.objects[place] = kind(*self.items(given))
        return self.objects[place]

    def read_reference(self, parts: list[Json]) -> Any:
        return self.objects[parts[0]]

    def read_blob(self, parts: list[Json]) -> bytes:
        start, end = parts
        return bytes(self.blobs[start:end])

    def read_array(self, parts: list[Json]) -> NDArray[Any]:
        dtype, shape, start, end = parts
        return np.frombuffer(self.blobs[start:end], dtype).reshape(shape).copy()

    def read_tensor(self, parts: list[Json]) -> Tensor:
        *described, start, end = parts
        dtype, shape, strides = self.items(described)
        tensor = torch.empty_strided(shape, strides, dtype=dtype, device="cpu")
        if start < end:
            dense = torch.frombuffer(bytearray(self.blobs[start:end]), dtype=dtype)
            tensor.copy_(dense.reshape(shape))
        return tensor

    def read_expr(self, parts: list[Json]) -> Expr:
        return Expr.const(parts[0]) if isinstance(parts[0], int) else _from_terms(parts)

    def read_complex(self, parts: list[Json]) -> complex:
        real, imaginary = parts
        return complex(real, imaginary)

    def read_torch_constant(self, parts: list[Json]) -> Any:
        value = getattr(torch, parts[0])
        if not isinstance(value, _TORCH):
            raise ValueError(f"'{parts[0]}' is no dtype, layout or memory format of torch")
        return value

    def read_device(self, parts: list[Json]) -> torch.device:
        return torch.device(parts[0])


def _from_terms(terms: list[Json]) -> Expr:
    return Expr(tuple((tuple(map(_read_atom, atoms)), c) for c, *atoms in terms))


def _read_atom(atom: Json) -> str | Call:
    if isinstance(atom, str):
        return atom
    kind, lhs, rhs = atom
    return Call(kind, _from_terms(lhs), _from_terms(rhs))


_READ: Mapping[str, Callable[[_Reader, list[Json]], Any]] = {
    "o": _Reader.read_object,
    "r": _Reader.read_reference,
    "t": _Reader.read_tuple,
    "l": _Reader.items,
    "d": _Reader.read_mapping,
    "e": _Reader.read_expr,
    "b": _Reader.read_blob,
    "a": _Reader.read_array,
    "x": _Reader.read_tensor,
    "c": _Reader.read_complex,
    "T": _Reader.read_torch_constant,
    "D": _Reader.read_device,
}
"""Kind -> what reads that which follows it."""
