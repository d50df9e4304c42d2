"""Strategies for the programs of `random_program`, and how one is compiled and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from hypothesis import reject
from hypothesis import strategies as st
from random_program import (
    Expected,
    Program,
    Rejected,
    Shadow,
    Sizes,
    Statement,
    compare,
    evaluate,
)
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from lpu_mlir.backend import lpu_mlir
from lpu_mlir.compile import compile_fx, make_program
from lpu_mlir.debug.kernels import side_by_side
from lpu_mlir.frontend.decompositions import decompositions
from lpu_mlir.options import Options

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

FLOATS = ("torch.float32", "torch.float32", "torch.float64", "torch.bfloat16", "torch.float16")
INTEGERS = ("torch.int64", "torch.int64", "torch.int32", "torch.int16", "torch.int8", "torch.uint8")
DTYPES = (*FLOATS, *FLOATS, *INTEGERS, "torch.bool")
EXTENTS = ("A", "B", "C", "A", "B", "1", "2", "3", "5", "0")
SIZES = (2, 3, 4, 5, 7, 9, 33, 0, 1)
LIMIT = 4000
"""Elements of a value: everything is interpreted."""

LAYOUTS = {
    "dense": "{0}",
    "transposed": "{0}.mT.contiguous().mT",
    "strided": "{0}.repeat_interleave(2, -1)[..., ::2]",
    "offset": "torch.cat([{0}[:1], {0}])[{0}[:1].shape[0]:]",
    "expanded": "{0}[..., :1].expand({0}.shape)",
    "overlapping": "torch.arange(99).to({0}.dtype).as_strided(({0}.shape[-1], 3), (1, 2), 4)",
}


SHARED = (
    *("{0}", "{0}[:]", "{0}[1:]", "{0}[..., ::2]", "{0}.mT", "{0}.flatten()", "{0}[..., :1]"),
    *("{0}.unsqueeze(0)", "{0}.diagonal()", "{0}[-2:]", "{0}.expand(2, *{0}.shape)"),
)


class Pool:
    """What a statement may use: names with their eager values so far.

    Every second operand is `hub`, if there is one and it fits: so values get several readers.
    """

    def __init__(self, draw: Draw, shadow: Shadow):
        self.draw, self.shadow = draw, shadow
        self.hub: str | None = None

    def choose_hub(self) -> None:
        if self.of(False, False, True):
            self.hub = self.of(None, *self.shadow.values)

    def tensor(self, name: str) -> Tensor:
        return self.shadow.values[name].value

    def pick(self, good: Callable[[Tensor], bool] = lambda t: True) -> str:
        """A name, later ones more likely; Rejected if no tensor is good."""
        names = [
            name
            for name, value in self.shadow.values.items()
            if isinstance(value.value, Tensor) and good(value.value)
        ]
        if not names:
            raise Rejected("no operand")
        if self.hub in names and self.of(False, True):
            return self.hub
        return self.draw(st.sampled_from([*names, *names[-2:]]))

    def partner(self, name: str, good: Callable[[Tensor], bool] = lambda t: True) -> str:
        """A name whose tensor broadcasts with that of `name`."""
        shape = self.tensor(name).shape
        return self.pick(lambda t: good(t) and _broadcast(t.shape, shape))

    def of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def dim(self, name: str) -> int:
        rank = self.tensor(name).dim()
        if rank == 0:
            raise Rejected("no dim")
        return self.draw(st.integers(-rank, rank - 1))

    def some_dim(self, name: str) -> str:
        """As the argument of a reduction."""
        rank = self.tensor(name).dim()
        dims = self.draw(st.lists(st.integers(0, max(rank - 1, 0)), unique=True, max_size=rank))
        return str(tuple(dims)) if dims else "None"


def _broadcast(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b)))


def _floating(t: Tensor) -> bool:
    return t.is_floating_point()


def _whole(t: Tensor) -> bool:
    return not t.is_floating_point() and t.dtype != torch.bool


def _ranked(*ranks: int) -> Callable[[Tensor], bool]:
    return lambda t: t.dim() in ranks


def _has_dims(t: Tensor) -> bool:
    return t.dim() > 0


# --- statements: (text, operands, kind) -----------------------------------------------------------

Drawn: TypeAlias = tuple[str, Sequence[str], str]

APPROXIMATE = (
    "exp sin cos tanh sigmoid log log2 log1p expm1 rsqrt erf atan F.silu F.softplus F.elu "
    "asinh exp2 F.mish F.hardswish"
).split()
EXACT = "neg abs square sqrt reciprocal clone isnan isinf isfinite relu F.relu6 nan_to_num".split()
JUMPS = "ceil floor round trunc sign logical_not frac".split()
BINARY = "add sub mul maximum minimum fmax fmin true_divide".split()
BINARY_JUMPS = (
    "eq ne lt le gt ge logical_and logical_or logical_xor floor_divide remainder fmod "
    "bitwise_and bitwise_or bitwise_xor"
).split()
NUMBERS = ("2", "-1.5", "0", "1", "3", "0.25", "-1", "True", "float('inf')")


def _called(name: str) -> str:
    return name if "." in name else f"torch.{name}"


def unary(p: Pool) -> Drawn:
    x = p.pick()
    if p.of(*[False] * 15, True):
        return f"F.gelu({x}, approximate='{p.of('none', 'tanh')}')", [x], "cancelling"
    kind = p.of("exact", "approximate", "jump")
    name = p.of(*{"exact": EXACT, "approximate": APPROXIMATE, "jump": JUMPS}[kind])
    return f"{_called(name)}({x})", [x], kind


def binary(p: Pool) -> Drawn:
    x = p.pick()
    kind = p.of("exact", "exact", "jump")
    name = p.of(*(BINARY if kind == "exact" else BINARY_JUMPS))
    if p.of(False, False, True):
        number = p.of(*NUMBERS)
        if name in ("add", "sub") and p.of(False, True):
            return f"torch.{name}({x}, {number}, alpha={p.of(2, 3)})", [x], kind
        return f"torch.{name}({x}, {number})", [x], kind
    y = p.partner(x)
    if name in ("add", "sub") and p.of(False, True):
        return f"torch.{name}({x}, {y}, alpha={p.of(2, -1)})", [x, y], kind
    return f"torch.{name}({x}, {y})", [x, y], kind


def power(p: Pool) -> Drawn:
    x = p.pick()
    if p.of(False, True):
        y = p.partner(x)
        return f"torch.pow({x}, {y})", [x, y], "approximate"
    if p.of(False, True):
        return f"torch.atan2({x}, {p.of(2, -1)} + abs({x}))", [x], "approximate"
    return f"{x} ** {p.of(2, 3, 0, 1, 0.5, -1, -2)}", [x], "approximate"


def shift(p: Pool) -> Drawn:
    x = p.pick(_whole)
    return f"{x} {p.of('<<', '>>')} {p.of(0, 1, 3)}", [x], "exact"


def select(p: Pool) -> Drawn:
    c = p.pick(lambda t: t.dtype == torch.bool)
    x = p.partner(c)
    y = p.of(p.partner(x), p.of("0.0", "-1", "float('-inf')"))
    if p.of(False, False, True):
        return f"{x}.masked_fill({c}, {p.of('0.5', '1', 'True')})", [x, c], "exact"
    return f"torch.where({c}, {x}, {y})", [n for n in (c, x, y) if n in p.shadow.values], "exact"


def clamp(p: Pool) -> Drawn:
    x = p.pick()
    low, high = p.of("None", "-1", "0.5"), p.of("None", "2", "0", "1.5")
    return f"{x}.clamp({low}, {high})", [x], "exact"


def multiply_add(p: Pool) -> Drawn:
    x = p.pick(_floating)
    y = p.partner(x, lambda t: t.dtype == p.tensor(x).dtype)
    name = p.of("addcmul", "addcdiv")
    return f"torch.{name}({x}, {y}, {x}, value={p.of(1, 2, 0.5)})", [x, y], "approximate"


def convert(p: Pool) -> Drawn:
    x, dtype = p.pick(), p.of(*DTYPES)
    return f"{x}.to({dtype})", [x], "integer" if "float" not in dtype else "exact"


def view(p: Pool) -> Drawn:
    x = p.pick(_has_dims)
    rank, d, e = p.tensor(x).dim(), p.dim(x), p.dim(x)
    first = d % rank
    text = p.of(
        f"{x}.reshape(-1)",
        f"{x}.unsqueeze({d})",
        f"{x}.squeeze()",
        f"{x}.squeeze({d})",
        f"{x}.transpose({d}, {e})",
        f"{x}.permute({tuple(reversed(range(rank)))})",
        f"{x}.movedim({d}, {e})",
        f"{x}.flatten({min(first, e % rank)}, {max(first, e % rank)})",
        f"{x}.expand(2, *{x}.shape)",
        f"{x}.unflatten({d}, (1, -1))",
        f"{x}.reshape({x}.shape[{d}], -1)",
        f"{x}.reshape(-1, 1, {x}.shape[{d}])",
        f"{x}.contiguous()",
        f"{x}.mT",
    )
    return text, [x], "exact"


def part(p: Pool) -> Drawn:
    x = p.pick(_has_dims)
    d, n = p.dim(x), p.of(0, 1, 2, -1, -2, 5)
    m, step = p.of(1, 2, -1, 9, "None"), p.of(1, 1, 2, 3)
    every = ", ".join([":"] * (d % p.tensor(x).dim()))
    before = f"{every}, " if every else ""
    text = p.of(
        f"{x}[{before}{n}:{m}:{step}]",
        f"{x}[{before}{n}]",
        f"{x}[..., {n}:{m}]",
        f"{x}[{before}None, ::{step}]",
        f"{x}.narrow({d}, 1, 1)",
        f"{x}.unbind({d})[0]",
        f"{x}.chunk(2, {d})[-1]",
        f"{x}.split(2, {d})[0]",
        f"{x}.diagonal({n}, {d}, {p.dim(x)})",
        # Writing into windows with gaps is wrong in PyTorch's own functionalization.
        f"{x}.unfold({d}, 2, {min(step, 2)})",
        f"{x}.tril({n})",
        f"{x}.triu({n})",
        f"{x}.diagonal_scatter(torch.ones_like({x}.diagonal()))",
    )
    if "scatter" in text and _overlaps(p.tensor(x)):
        raise Rejected("eager writes to several elements at once")
    return text, [x], "exact"


def moved(p: Pool) -> Drawn:
    x = p.pick(_has_dims)
    d, n, m = p.dim(x), p.of(0, 1, 2, -1), p.of(0, 1, 3)
    text = p.of(
        f"{x}.flip({d})",
        f"{x}.flip({tuple(range(p.tensor(x).dim()))})",
        f"torch.roll({x}, {n}, {d})",
        f"torch.roll({x}, {n})",
        f"{x}.repeat({p.of('2', '1, 2', '2, 1, 3')})",
        f"{x}.tile(2)",
        f"{x}.repeat_interleave(2, {d})",
        f"F.pad({x}, ({n}, {m}))",
        f"F.pad({x}, ({n}, {m}, {m}, {n}), value=1)",
        f"torch.nn.functional.one_hot({x} % 3, 3)",
    )
    return text, [x], "exact"


def joined(p: Pool) -> Drawn:
    x = p.pick(_has_dims)
    d = p.dim(x)
    y = p.pick(lambda t: t.dim() == p.tensor(x).dim())
    name = p.of("cat", "cat", "stack")
    return f"torch.{name}([{', '.join(p.of((x, y), (y, x, y), (x,)))}], {d})", [x, y], "exact"


def reduction(p: Pool) -> Drawn:
    x = p.pick()
    dims, keep = p.some_dim(x), p.of(False, True)
    kind, name = p.of(
        ("sum", "sum"),
        ("sum", "sum"),
        ("approximate", "mean"),
        ("exact", "amax"),
        ("exact", "amin"),
        ("approximate", "var"),
        ("approximate", "std"),
        ("stepwise", "logsumexp"),
        ("jump", "any"),
        ("jump", "all"),
        ("jump", "count_nonzero"),
        ("approximate", "norm"),
    )
    if name == "norm":
        return f"{x}.norm(dim={dims})", [x], kind
    if name == "count_nonzero":
        return f"{x}.count_nonzero({dims})", [x], kind
    if name in ("amax", "amin", "logsumexp") and dims == "None":
        dims = "()" if name != "logsumexp" else "0"
    return f"{x}.{name}({dims}, keepdim={keep})", [x], kind


def along(p: Pool) -> Drawn:
    x = p.pick(_has_dims)
    d = p.dim(x)
    text, kind = p.of(
        (f"{x}.max({d})[0]", "exact"),
        (f"{x}.min({d})[1]", "jump"),
        (f"{x}.argmax({d})", "jump"),
        (f"{x}.argmin()", "jump"),
        (f"{x}.argmax({d}, keepdim=True)", "jump"),
        (f"{x}.max()", "exact"),
        (f"{x}.cumsum({d})", "sum"),
        (f"{x}.cumprod({d})", "approximate"),
        (f"{x}.prod({d})", "approximate"),
        (f"{x}.softmax({d})", "approximate"),
        (f"{x}.log_softmax({d})", "stepwise"),
        (f"F.softmin({x}, {d})", "approximate"),
        (f"{x}.sort({d}, stable=True)[0]", "jump"),
        (f"{x}.cummax({d})[0]", "jump"),
        (f"F.normalize({x}, dim={d})", "approximate"),
        (f"F.layer_norm({x}, {x}.shape[-1:])", "stepwise"),
        (f"F.rms_norm({x}, {x}.shape[-1:])", "approximate"),
        (f"F.group_norm({x}, 1)", "stepwise"),
        (f"F.glu({x}, {d})", "approximate"),
    )
    return text, [x], kind


def product(p: Pool) -> Drawn:
    x = p.pick(_ranked(1, 2, 3))
    a = p.tensor(x)
    y = p.pick(
        lambda t: t.dim() > 0 and t.dtype == a.dtype and a.shape[-1] in (t.shape[0], *t.shape[-2:])
    )
    text = p.of(
        f"{x} @ {y}",
        f"{x} @ {y}.mT",
        f"{x} @ {y}",
        f"F.linear({x}, {y})",
        f"torch.einsum('...ik,jk->...ij', {x}, {y})",
        f"torch.einsum('ik,kj->ji', {x}, {y})",
        f"torch.outer({x}, {y})",
        f"torch.addmm({x}[:1, :1], {x}, {y}, beta={p.of(1, 2, 0)}, alpha={p.of(1, 0.5)})",
        f"torch.baddbmm({x}[:, :1, :1], {x}, {y})",
        f"F.scaled_dot_product_attention({x}, {y}, {y})",
    )
    attention = "attention" in text
    return text, [x, y], "composite" if attention else "sum"


def composite(p: Pool) -> Drawn:
    """What the raising passes look for, and what only resembles it."""
    x = p.pick(lambda t: _floating(t) and t.dim() in (2, 3))
    a = p.tensor(x)
    y = p.pick(lambda t: t.dtype == a.dtype and t.dim() == a.dim() and t.shape[-1] == a.shape[-1])
    keys = p.of(y, y, f"{y}.repeat_interleave(40, -2)", f"{y}.mT.contiguous().mT")
    # Small ones: eager's exponentials of numbers far below 0 are 0 before ours are, and those of
    # large ones lose the digits that the sums have before the point.
    scores = f"({x} @ {keys}.mT * 0.05)"
    below = f"torch.arange({keys}.shape[-2]) <= torch.arange({x}.shape[-2])[:, None] + {p.of(0, 1)}"
    score = p.of(
        f"{scores} * 0.3",
        f"{scores} / 3 + {scores}[..., :1]",
        f"torch.tanh({scores} / 5) * 5",
        f"torch.where({below}, {scores}, -torch.inf)",
        f"{scores} + torch.where({below}, 0, torch.finfo({x}.dtype).min)",
        f"{scores}.masked_fill({below}, -torch.inf)",
    )
    weights = p.of(
        f"torch.softmax({score}, -1)",
        f"torch.softmax({score}, -1, dtype=torch.float32).to({x}.dtype)",
        f"torch.softmax({score}, -2)",
    )
    first, second = (f"{x}.tensor_split(2, -1)[{i}]" for i in (0, 1))
    attention = (
        f"{weights} @ {keys}",
        f"F.scaled_dot_product_attention({x} * 0.05, {keys}, {keys}, {below})",
        f"F.scaled_dot_product_attention({x} * 0.05, {y}, {y}, is_causal=True)",
    )
    # In half precision eager rounds each step of these, most of which are large.
    others = (
        f"({x} - {x}.amax(-1, True)).exp() / ({x} - {x}.amax(-1, True)).exp().sum(-1, True)",
        f"{x} * torch.rsqrt({x}.pow(2).mean(-1, keepdim=True) + 1e-6) * {y}[..., 0, :]",
        f"{x} * {y}[..., :1, :] + torch.cat([-{second}, {first}], -1) * {y}[..., :1, :]",
        f"0.5 * {x} * (1 + torch.erf({x} * 0.5**0.5)) + {x} * torch.sigmoid(1.702 * {x})",
        f"F.gelu({x}, approximate='tanh')",
    )
    if a.dtype.itemsize > 2:
        return p.of(*attention, *others), [x, y], "composite"
    return p.of(*attention), [x, y], "stepwise"


def indexed(p: Pool) -> Drawn:
    # Eager's copy of a tensor that overlaps itself does so, too, and spreads what is written.
    x = p.pick(lambda t: t.dim() > 0 and not _overlaps(t))
    d = p.dim(x)
    i = p.pick(_whole)
    at = f"torch.remainder({i}.long(), {x}.shape[{d}])"
    every = ", ".join([":"] * (d % p.tensor(x).dim()))
    before = f"{every}, " if every else ""
    flat = f"{at}.reshape(-1)"
    updates = f"{x}.index_select({d}, {flat})"
    text, kind = p.of(
        (f"{x}[{before}{at}]", "exact"),
        (f"{x}[{before}{at} - {x}.shape[{d}]]", "exact"),
        (f"{x}.index_select({d}, {flat})", "exact"),
        (f"{x}.gather({d}, {at})", "exact"),
        (f"torch.take_along_dim({x}, {at}, {d})", "exact"),
        (f"{x}.scatter({d}, {at}, 1)", "exact"),
        (f"{x}.scatter_add({d}, {at}, {x})", "sum"),
        (f"{x}.index_add({d}, {flat}, {updates})", "sum"),
        (f"{x}.index_fill({d}, {flat}, 2)", "exact"),
        (f"F.embedding({at}, {x})", "exact"),
        (f"torch.index_put({x}, ({at},), torch.ones_like({x}[:1])[0], accumulate=True)", "sum"),
        (f"torch.index_put({x}, ({at},), torch.zeros_like({x}[:1])[0])", "exact"),
        (f"{x}.slice_scatter(torch.ones_like({x}[:1]), 0, 0, 1)", "exact"),
        (f"{x}.select_scatter(torch.ones_like({x}.select({d}, 0)), {d}, 0)", "exact"),
    )
    return text, [x, i], kind


def created(p: Pool) -> Drawn:
    x = p.pick()
    dtype = p.of(*DTYPES)
    n = f"{x}.shape[{p.dim(x)}]" if p.tensor(x).dim() else "3"
    text = p.of(
        f"torch.arange({n})",
        f"torch.arange({n}, dtype=torch.float32) / 2",
        f"torch.full(({n}, 2), 1.5)",
        f"torch.ones({n}, dtype={dtype})",
        f"torch.zeros_like({x}, dtype={dtype})",
        f"torch.eye({n})",
        f"{x} * {n}",
        f"{x}.new_full(({n},), 2)",
        f"torch.arange({n}, 0, -2)",
    )
    return text, [x], "exact"


def updated(p: Pool) -> Drawn:
    """In place; Dynamo, eager and we must agree on who sees it."""
    x = p.pick(lambda t: not _overlaps(t))
    t = p.tensor(x)
    if any(_overlaps(o) and _same_storage(o, t) for o in map(p.tensor, p.shadow.values)):
        raise Rejected("a part of a tensor that overlaps itself")
    y = p.partner(x, lambda o: o.dtype == t.dtype)
    d = f".select({p.dim(x)}, 0)" if t.dim() else ""
    text = p.of(
        f"{x}.add_({y})",
        f"{x}.mul_(2)",
        f"{x}.copy_({y})",
        f"{x}.zero_()",
        f"{x}{d}.fill_(1)",
        f"{x}[:1].add_(1)",
        f"{x}[..., ::2].copy_({y}[..., ::2])",
        f"{x}.mT.add_(1)",
        f"{x}.clamp_(-1, 2)",
        f"{x}.index_fill_(0, torch.tensor([0]), 1)",
        f"{x}.masked_fill_({x} > 0, 1)",
        f"{x}[-1:] = {y}[:1]",
        f"{x}.flatten()[:1].add_(1)",
    )
    if "=" in text.split("(")[0]:
        return f"{x}.narrow(0, {x}.shape[0] - 1, 1).copy_({y}[:1])", [x, y], "update"
    return text, [x, y], "update"


def _same_storage(x: Tensor, y: Tensor) -> bool:
    return x.untyped_storage()._cdata == y.untyped_storage()._cdata


def _overlaps(t: Tensor) -> bool:
    """Whether elements may share an address."""
    span = 1
    for step, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size > 1 and step < span:
            return True
        span += step * (size - 1)
    return False


STATEMENTS = (
    *(unary, unary, binary, binary, binary, power, shift, select, select, clamp, multiply_add),
    *(convert, convert, view, view, part, part, moved, joined, reduction, reduction, along, along),
    *(product, product, composite, composite, indexed, indexed, created, updated),
)


# --- programs -------------------------------------------------------------------------------------


@st.composite
def inputs(draw: Draw, seed: int) -> str:
    rank = draw(st.integers(0, 3))
    shape = [draw(st.sampled_from(EXTENTS)) for _ in range(rank)]
    special = draw(st.sampled_from((False, False, False, True)))
    dtype = draw(st.sampled_from(DTYPES))
    text = f"values({seed}, {dtype}, ({', '.join([*shape, ''])}), {special})".replace("(, )", "()")
    layout = draw(st.sampled_from(tuple(LAYOUTS))) if rank >= 2 else "dense"
    return LAYOUTS[layout].format(text)


@st.composite
def shared(draw: Draw, before: Sequence[str]) -> str:
    """An input in the memory of one before it."""
    return draw(st.sampled_from(SHARED)).format(draw(st.sampled_from(before)))


@st.composite
def programs(draw: Draw, most: int = 12, sharing: bool = False) -> Program:
    """Programs whose first sizes eager can run; with other sizes it may refuse.

    With `sharing` inputs may share memory, which is for Dynamo and AOTAutograd to see.
    """
    dynamic = draw(st.booleans())
    count = 3 if dynamic else 1
    sizes = [{n: draw(st.sampled_from(SIZES)) for n in "ABC"} for _ in range(count)]
    names = [f"a{i}" for i in range(draw(st.integers(1, 3)))]
    given = tuple(
        (n, draw(shared(names[:i]) if i and sharing and draw(st.booleans()) else inputs(i)))
        for i, n in enumerate(names)
    )
    made = Program(given, (), (), tuple(sizes), dynamic, draw(st.sampled_from(("tiny", "bertha"))))
    try:
        shadow = Shadow(dict(zip(names, made.make_inputs(sizes[0]), strict=True)))
    except (RuntimeError, IndexError):
        reject()
    pool = Pool(draw, shadow)
    statements: list[Statement] = []
    for position in range(draw(st.integers(2, most))):
        pool.choose_hub()
        try:
            text, operands, kind = draw(st.sampled_from(STATEMENTS))(pool)
            statement = Statement(f"v{position}", text, tuple(dict.fromkeys(operands)), kind)
            shadow.run(statement)
        except Rejected:
            continue
        if kind != "update" and shadow.values[statement.target].value.numel() > LIMIT:
            del shadow.values[statement.target]
            continue
        statements.append(statement)
    used = {name for statement in statements for name in statement.operands}
    unread = [name for name in shadow.values if name not in used and name not in dict(given)]
    values = st.sampled_from(tuple(shadow.values))
    outputs = [*unread, *draw(st.lists(values, min_size=not unread, max_size=4))]
    return Program(given, tuple(statements), tuple(outputs), tuple(sizes), dynamic, made.target)


# --- checks ---------------------------------------------------------------------------------------


def _match(got: Sequence[Any], given: Sequence[Tensor], want: Expected, sizes: Sizes) -> None:
    assert len(got) == len(want.outputs)
    for i, (value, expected) in enumerate(zip(got, want.outputs, strict=True)):
        compare(value, expected, f"output {i} for {dict(sizes)}")
    for i, (value, after) in enumerate(zip(given, want.inputs, strict=True)):
        compare(value, type(want.outputs[0])(after), f"input {i} afterwards for {dict(sizes)}")


def traced(program: Program, given: Sequence[Tensor]) -> tuple[Any, Any]:
    """A functional graph of core operators, with writes to inputs at its end; before it the graph
    whose trace may have fixed extents already."""
    options: Any = {
        "decomposition_table": dict(decompositions()),
        "tracing_mode": "symbolic" if program.dynamic else "fake",
    }
    # Decompositions may write in place, so there must be none left to do for the second trace.
    decomposed = make_fx(program.function(), **options)(*given)
    functional = torch.func.functionalize(decomposed, remove="mutations")
    return decomposed, make_fx(functional, **options)(*given)


def check_graph(program: Program, interpreter: str = "native") -> int:
    """Traces, compiles and runs without Dynamo; returns how many sizes were compared."""
    sizes = program.sizes[0]
    try:
        want = evaluate(program, sizes)
    except Rejected:
        return 0
    given = program.make_inputs(sizes)
    try:
        before, graph = traced(program, given)
    except Exception:  # PyTorch cannot trace all that eager can run
        return 0
    if any(_hides_a_symbol(n.meta["val"]) for n in graph.graph.nodes if n.op == "placeholder"):
        return 0
    options = Options(target=program.target, verify=True, interpreter=interpreter)
    make = side_by_side if interpreter == "compare" else make_program
    compiled = compile_fx(graph, given, options, make=make)
    _match(compiled(list(given)), given, want, sizes)
    graphs = (before, graph)
    return 1 + sum(_again(program, graphs, compiled, other) for other in program.sizes[1:])


def _again(program: Program, graphs: Sequence[Any], compiled: Any, sizes: Sizes) -> int:
    """Runs the compiled program with other sizes, if the guards of its traces allow them."""
    given = program.make_inputs(sizes)
    if not all(_allows(graph, given) for graph in graphs):
        return 0
    try:
        want = evaluate(program, sizes)
    except Rejected:
        return 0
    _match(compiled(list(given)), given, want, sizes)
    return 1


def _allows(graph: Any, given: Sequence[Tensor]) -> bool:
    fakes = [n.meta["val"] for n in graph.graph.nodes if n.op == "placeholder"]
    fixed = all(_fits(fake, real) for fake, real in zip(fakes, given, strict=True))
    return fixed and graph.shape_env.evaluate_guards_for_args(fakes, given, ignore_static=False)


def _hides_a_symbol(fake: Tensor) -> bool:
    """Whether a stride that means nothing is a symbol: Dynamo, but not we, would pass its value."""
    pairs = zip(fake.shape, fake.stride(), strict=True)
    few = 0 in fake.shape
    return any((few or size == 1) and isinstance(step, torch.SymInt) for size, step in pairs)


def _fits(fake: Tensor, real: Tensor) -> bool:
    """Whether the extents and strides agree that are constants of the graph."""
    pairs = zip((*fake.shape, *fake.stride()), (*real.shape, *real.stride()), strict=True)
    return all(isinstance(known, torch.SymInt) or known == size for known, size in pairs)


def check_compiled(program: Program, interpreter: str = "native") -> int:
    """Through torch.compile with all sizes; the backend must be called."""
    calls: list[int] = []
    chosen = {"target": program.target, "interpreter": interpreter}

    def backend(gm: Any, example_inputs: Any, **options: Any) -> Any:
        calls.append(len(example_inputs))
        return lpu_mlir(gm, example_inputs, options=chosen)

    torch._dynamo.reset()
    function = program.function()
    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=program.dynamic)
    compared = 0
    for sizes in program.sizes:
        try:
            want = evaluate(program, sizes)
        except Rejected:
            continue
        given = program.make_inputs(sizes)
        try:
            got = compiled(*given)
        except (torch._dynamo.exc.UserError, torch._dynamo.exc.Unsupported):
            return compared
        _match(got, given, want, sizes)
        _match_aliases(got, given, want)
        compared += 1
    assert calls or not compared or not program.statements, "the backend was not called"
    return compared


def _match_aliases(got: Sequence[Any], given: Sequence[Tensor], want: Expected) -> None:
    """An output shares storage with an input, and is it, exactly if eager's does."""
    for i, (value, expected) in enumerate(zip(got, want.outputs, strict=True)):
        if not isinstance(value, Tensor):
            continue
        for j, (mine, theirs) in enumerate(zip(given, want.inputs, strict=True)):
            assert (value is mine) == (expected.value is theirs), (
                f"identity of output {i}, input {j}"
            )
            shared = _same_storage(value, mine)
            assert shared == _same_storage(expected.value, theirs), (
                f"storage of output {i} and input {j}"
            )
