"""Programs over PyTorch as data: their text, their inputs, what eager says of them and how exactly.

A program is a list of statements in Python.  Beside each value its error is known: how far from
eager's value a correct implementation may be, element by element.  Arithmetic that IEEE 754 rounds
correctly, moves and integers have none.  Functions that libraries approximate, and sums whose order
is free, have the rounding error of their result; and what depends on inexact values has, besides,
what a disturbance of its operands by their errors changes.  A statement that could jump, such as a
comparison, must have exact operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

Sizes = Mapping[str, int]

PRELUDE = '''\
import torch
import torch.nn.functional as F


def values(seed, dtype, shape, special=False):
    """Small whole numbers, mostly halves for floats; `special` adds values that are not finite."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    low = 0 if dtype == torch.uint8 else -6
    whole = torch.randint(low, 7, shape, generator=generator)
    if not dtype.is_floating_point:
        return whole.to(dtype)
    if seed % 2:
        whole = whole / 2
    result = whole.to(dtype)
    if special:
        odd = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0], dtype=dtype)
        at = torch.randint(0, 12, shape, generator=generator)
        result = torch.where(at < 4, odd[at.clamp(max=3)], result)
    return result
'''

NAMESPACE: dict[str, Any] = {}
exec(PRELUDE, NAMESPACE)

HALF_ULP = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}
LIBRARY = 16
"""Half ulps by which two implementations of exp, erf, … may differ; eager's own are within 8."""

DISTURBED = 8
"""Safety factor on the change that one random disturbance of the operands makes."""

ORDERED = 2.0**22
"""Whole numbers whose absolute values sum to less are added exactly in f32, in any order."""


COMPOSITE = 8
"""How many of those may follow each other in one statement, each disturbing the next."""


APPROXIMATE = ("approximate", "cancelling", "composite", "stepwise")
SMOOTH = (*APPROXIMATE, "exact", "sum")


class Rejected(Exception):
    """Nothing to compare with: eager refuses it, or its value is undefined or ill conditioned."""


@dataclass(frozen=True)
class Statement:
    """`target = text`, or `text` alone for a statement that changes its first operand.

    kind: "exact", "approximate" (library functions, free order), "composite" (several of them),
    "cancelling" (approximate, and relative to its operand only), "stepwise" (eager rounds parts of
    it to the dtype), "sum" (exact for small whole numbers), "jump" (needs exact operands),
    "integer" (a conversion: needs exact ones in range), "update" (in place).
    """

    target: str
    text: str
    operands: tuple[str, ...]
    kind: str = "exact"

    @property
    def line(self) -> str:
        return self.text if self.kind == "update" else f"{self.target} = {self.text}"


@dataclass(frozen=True)
class Program:
    """Inputs are expressions over the sizes A, B and C and the inputs before them; `sizes[0]` is
    compiled for, all are run."""

    inputs: tuple[tuple[str, str], ...]
    statements: tuple[Statement, ...]
    outputs: tuple[str, ...]
    sizes: tuple[Sizes, ...]
    dynamic: bool
    target: str

    def function_text(self) -> str:
        names = ", ".join(name for name, _ in self.inputs)
        body = [s.line for s in self.statements] + [f"return [{', '.join(self.outputs)}]"]
        return f"def program({names}):\n" + "".join(f"    {line}\n" for line in body)

    def function(self) -> Any:
        space = dict(NAMESPACE)
        exec(compile(self.function_text(), "<random program>", "exec"), space)
        return space["program"]

    def make_inputs(self, sizes: Sizes) -> list[Tensor]:
        made: dict[str, Tensor] = {}
        for name, text in self.inputs:
            made[name] = eval(text, {**NAMESPACE, **sizes, **made})
        return list(made.values())

    def script(self) -> str:
        """Repeats the comparison; needs nothing but torch and lpu_mlir."""
        names = ", ".join(name for name, _ in self.inputs)
        making = "".join(f"    {name} = {text}\n" for name, text in self.inputs)
        runs = "".join(
            f"given, again = (inputs{tuple(sizes.values())} for _ in range(2))\n"
            "for got, want in zip(compiled(*given), program(*again), strict=True):\n"
            "    torch.testing.assert_close(got, want, equal_nan=True)\n"
            "torch.testing.assert_close(given, again, equal_nan=True)\n"
            for sizes in self.sizes
        )
        return (
            f"{PRELUDE}\n\n{self.function_text()}\n\n"
            f"def inputs({', '.join(self.sizes[0])}):\n{making}    return [{names}]\n\n\n"
            "compiled = torch.compile(program, backend='lpu_mlir', fullgraph=True, "
            f"dynamic={self.dynamic}, options={{'target': '{self.target}'}})\n{runs}"
        )


@dataclass
class Value:
    """Eager's value; `error` is None if it must be met exactly, else f64, one per element."""

    value: Any
    error: Tensor | None = None


class Shadow:
    """Runs statements in eager and keeps the error of each value."""

    def __init__(self, inputs: Mapping[str, Tensor]):
        self.values = {name: Value(tensor) for name, tensor in inputs.items()}
        self.generator = torch.Generator().manual_seed(0)

    def run(self, statement: Statement) -> None:
        """Raises Rejected, and then leaves all values as they were."""
        operands = {name: self.values[name] for name in statement.operands}
        exact = all(o.error is None for o in operands.values())
        if not exact and statement.kind not in SMOOTH:
            raise Rejected("inexact operands")
        plain = {name: o.value for name, o in operands.items()}
        if statement.kind == "update":
            self._evaluate(statement.text, {n: _copied(v) for n, v in plain.items()})
        result = self._evaluate(statement.text, plain)
        if statement.kind == "update":
            return
        _check_defined(statement.kind, list(plain.values()), result)
        error = self._error(statement, operands, result, exact)
        self.values[statement.target] = Value(result, error)

    def _evaluate(self, text: str, values: Mapping[str, Any]) -> Any:
        try:
            return eval(text, NAMESPACE, dict(values))
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
            raise Rejected(str(error)) from error

    def _error(
        self, statement: Statement, operands: Mapping[str, Value], result: Any, exact: bool
    ) -> Tensor | None:
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return None
        free = statement.kind == "sum" and not _small(operands.values())
        rounded = free or statement.kind in APPROXIMATE
        if exact and not rounded:
            return None
        own = HALF_ULP[result.dtype]
        if "dtype=torch.float32" in statement.text:  # then a part of it is rounded to that
            own = max(own, HALF_ULP[torch.float32])
        error = own * 2 * result.double().abs()
        accurate = min(own, HALF_ULP[torch.float32])
        if rounded:
            error = error * (LIBRARY if own == accurate else 2)
        if statement.kind == "composite":
            error = error * COMPOSITE
        if statement.kind == "cancelling":
            error = error + _only(operands).abs() * accurate * LIBRARY
        if statement.kind in ("composite", "stepwise"):
            error = error + _largest(operands) * own * 2
        disturbed = {
            name: self._disturbed(o, accurate if rounded else 0.0) for name, o in operands.items()
        }
        for sign in (1, -1):
            other = self._evaluate(statement.text, {n: d(sign) for n, d in disturbed.items()})
            change = (other.double() - result.double()).abs()
            same = (other == result) | (other.isnan() & result.isnan())
            error = torch.maximum(error, torch.where(same, 0.0, change * DISTURBED) + error)
        finite = result.isfinite()
        if not error[finite].isfinite().all() or (error > 0.05 * result.abs() + 0.05)[finite].any():
            raise Rejected("ill conditioned")
        return error.nan_to_num(0.0, 0.0, 0.0)

    def _disturbed(self, operand: Value, relative: float) -> Any:
        value = operand.value
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return lambda sign: value
        amount = value.double().abs() * relative
        amount = amount if operand.error is None else amount + operand.error
        noise = torch.rand(value.shape, generator=self.generator, dtype=torch.float64) * 2 - 1
        return lambda sign: (value.double() + noise.sign() * amount * sign).to(value.dtype)


def _only(operands: Mapping[str, Value]) -> Tensor:
    [operand] = operands.values()
    return operand.value.double()


def _largest(operands: Mapping[str, Value]) -> float:
    """The largest finite absolute value of all operands."""
    tensors = [o.value.double().nan_to_num(0.0, 0.0, 0.0).abs() for o in operands.values()]
    return max((float(tensor.max()) for tensor in tensors if tensor.numel()), default=0.0)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _small(operands: Any) -> bool:
    """Whether products of the operands' elements, however many, are summed exactly."""
    most = 1.0
    for operand in operands:
        value = operand.value
        if not isinstance(value, Tensor):
            continue
        if operand.error is not None:
            return False
        doubled = value.double() * 2
        if not (doubled == doubled.round()).all():
            return False
        most *= max(float(doubled.abs().max()), 1.0) * max(value.numel(), 1) if value.numel() else 1
    return most < ORDERED


def _check_defined(kind: str, operands: Sequence[Any], result: Any) -> None:
    floats = [o for o in operands if isinstance(o, Tensor) and o.is_floating_point()]
    if kind == "integer" and isinstance(result, Tensor) and not result.is_floating_point():
        if result.dtype == torch.bool:
            return
        info = torch.iinfo(result.dtype)
        for value in floats:
            inside = (value.double() >= info.min) & (value.double() <= info.max * (1 - 2.0**-50))
            if not inside.all():
                raise Rejected("a conversion out of range")


@dataclass(frozen=True)
class Expected:
    outputs: list[Value]
    inputs: list[Tensor]
    """The inputs after the run."""


def evaluate(program: Program, sizes: Sizes) -> Expected:
    """What eager says; Rejected if it says nothing definite."""
    inputs = program.make_inputs(sizes)
    names = [name for name, _ in program.inputs]
    shadow = Shadow(dict(zip(names, inputs, strict=True)))
    for statement in program.statements:
        shadow.run(statement)
    outputs = [shadow.values.get(name, Value(None)) for name in program.outputs]
    for name, value in zip(program.outputs, outputs, strict=True):
        if name not in shadow.values:
            value.value = eval(name, NAMESPACE, {n: v.value for n, v in shadow.values.items()})
    return Expected(outputs, inputs)


def compare(got: Any, want: Value, what: str) -> None:
    """AssertionError unless `got` has the dtype, shape and elements of `want` within its error."""
    expected = want.value
    if not isinstance(expected, Tensor):
        assert type(got) is type(expected), f"{what}: {got!r}, not {expected!r}"
        assert got == expected, f"{what}: {got!r}, not {expected!r}"
        return
    assert isinstance(got, Tensor), f"{what}: {got!r}, not a tensor"
    found, named = (got.dtype, tuple(got.shape)), (expected.dtype, tuple(expected.shape))
    assert found == named, f"{what}: {found}, not {named}"
    right = (got == expected) | (got.isnan() & expected.isnan())
    if want.error is not None:
        distance = (got.double() - expected.double()).abs()
        least = torch.finfo(expected.dtype).smallest_normal
        right |= distance <= want.error + least
    if not right.all():
        at = tuple(torch.nonzero(~right)[0].tolist())
        allowed = 0 if want.error is None else float(want.error[at])
        raise AssertionError(
            f"{what}: {int((~right).sum())} of {right.numel()} elements differ; at {at} "
            f"{got[at].item()}, not {expected[at].item()} (allowed: {allowed:.2g})"
        )


# --- smaller programs that fail as well -----------------------------------------------------------


def smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less, the most effective first."""
    for sizes in (program.sizes[:1], program.sizes[::2], program.sizes[:2]):
        if len(sizes) < len(program.sizes):
            yield replace(program, sizes=sizes)
    if program.dynamic and len(program.sizes) == 1:
        yield replace(program, dynamic=False)
    for position in range(len(program.outputs)):
        if len(program.outputs) > 1:
            outputs = program.outputs[:position] + program.outputs[position + 1 :]
            yield replace(program, outputs=outputs)
    for position in reversed(range(len(program.statements))):
        yield _without(program, position)
    for position, (name, text) in enumerate(program.inputs):
        if not any(name in s.operands for s in program.statements) and len(program.inputs) > 1:
            if name not in program.outputs:
                rest = program.inputs[:position] + program.inputs[position + 1 :]
                yield replace(program, inputs=rest)
        for old, new in (("True)", "False)"), ("bfloat16", "float32"), ("float16", "float32")):
            if old in text:
                given = list(program.inputs)
                given[position] = (name, text.replace(old, new))
                yield replace(program, inputs=tuple(given))


def _without(program: Program, drop: int) -> Program:
    """The program without one statement and all that depends on it."""
    gone: set[str] = set()
    kept: list[Statement] = []
    for position, statement in enumerate(program.statements):
        if position == drop or gone & set(statement.operands):
            gone |= {statement.target} if statement.kind != "update" else set()
        else:
            kept.append(statement)
    outputs = tuple(o for o in program.outputs if o not in gone)
    return replace(program, statements=tuple(kept), outputs=outputs or (program.inputs[0][0],))


def minimised(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A program that fails, too, and of which nothing can be taken away."""
    while True:
        following = next((p for p in smaller(program) if fails(p)), None)
        if following is None:
            return program
        program = following
