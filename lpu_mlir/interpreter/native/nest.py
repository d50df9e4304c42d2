"""Loops over the elements of tiles, one dim of them in vectors."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.ir import Attribute

from lpu_mlir.dialects.lpu import element_bytes
from lpu_mlir.interpreter.native.llvm import (
    I1,
    I64,
    PTR,
    TRUE,
    Builder,
    Int,
    Value,
    element_of,
    lanes_of,
    memory_type,
    suffix,
    vector,
)
from lpu_mlir.interpreter.native.tile import View

Values = Sequence[Value]


@dataclass(eq=False)
class Leaf:
    """Elements that a nest reads: of a view, whose dims are these dims of the nest.

    `index` makes it a gather: along `index_dim` of the view the position is what that leaf reads.
    """

    view: View
    dims: tuple[int, ...]
    index: Leaf | None = None
    index_dim: int = 0

    def depends_on(self) -> set[int]:
        """The dims of the nest along which it changes."""
        own = zip(self.view.sizes, self.view.strides, self.dims, strict=True)
        found = {dim for size, stride, dim in own if dim >= 0 and size != 1 and stride != 0}
        return found | (self.index.depends_on() if self.index else set())


NO_DIM = -1
"""In place of a nest's dim: the dim of a view that an index selects positions of."""


@dataclass
class Nest:
    """
    Loops over `sizes`.  Along the dim `vector` every step takes `lanes` elements; what is left at
    its end is one step with a `mask`.

    Leaves are read as soon as the loops that they depend on are open, so outside of those that they
    do not.
    """

    b: Builder
    sizes: tuple[Int, ...]
    vector: int | None
    full_lanes: int
    leaves: list[Leaf] = field(default_factory=list[Leaf])

    def __post_init__(self) -> None:
        self.position: dict[int, Int] = {}
        self.mask: Value | None = None
        self._read: dict[Leaf, Value] = {}

    @property
    def lanes(self) -> int:
        return 1 if self.vector is None else self.full_lanes

    def leaf(
        self, view: View, dims: Sequence[int], index: Leaf | None = None, index_dim: int = 0
    ) -> Leaf:
        """What reads these elements while the nest runs."""
        leaf = Leaf(view, tuple(dims), index, index_dim)
        self.leaves.append(leaf)
        return leaf

    def target(
        self, view: View, dims: Sequence[int], index: Leaf | None = None, dim: int = 0
    ) -> Leaf:
        """Where to write elements: like a leaf, but not read."""
        return Leaf(view, tuple(dims), index, dim)

    def order(self, strides: Sequence[Int]) -> list[int]:
        """All dims for `each`: by strides of a view, the vector dim innermost."""

        def key(dim: int) -> tuple[bool, int]:
            stride = strides[dim]
            return dim == self.vector, -stride if isinstance(stride, int) else 0

        return sorted(range(len(self.sizes)), key=key)

    def reread(self, accesses: Sequence[tuple[View, Sequence[int]]]) -> set[int]:
        """Dims along which memory is contiguous that lies far apart along the vector dim: inside of
        that they are to be walked, while what a vector has touched is in the cache."""
        found: set[int] = set()
        for view, dims in accesses:
            strides = dict(zip(dims, view.strides, strict=True))
            stride = strides.get(self.vector, 0) if self.vector is not None else 0
            if stride not in (0, 1) and not is_near(stride):
                found |= {dim for dim, step in strides.items() if step == 1}
        return found

    # --- loops ----------------------------------------------------------------------------------

    def each(
        self, dims: Sequence[int], carried: Values, body: Callable[[Values], Values]
    ) -> Values:
        """Runs the body for all positions of some dims; what it returns is carried on."""
        if not dims:
            return body(carried)
        dim, rest = dims[0], dims[1:]
        if dim == self.vector:
            return self._in_vectors(dim, carried, lambda values: self.each(rest, values, body))
        if self.sizes[dim] == 1:
            return self._at(dim, 0, carried, lambda values: self.each(rest, values, body))
        with self.b.loop(0, self.sizes[dim], 1, carried) as loop:
            loop.carry(
                self._at(
                    dim, loop.index, loop.carried, lambda values: self.each(rest, values, body)
                )
            )
        return loop.results

    def in_blocks(
        self,
        dims: Sequence[int],
        block: int,
        start: Values,
        body: Callable[[Values], Values],
        join: Callable[[Values, Values], Values],
    ) -> Values:
        """`each` for dims that are not in vectors, where what long ones carry begins anew in each
        block of so many positions, and in each block of blocks: joined, sums lose less so."""
        if not dims:
            return body(start)

        def inner(values: Values) -> Values:
            return self.in_blocks(dims[1:], block, values, body, join)

        b, dim = self.b, dims[0]
        size, width = self.sizes[dim], 1
        if size == 1:
            return self._at(dim, 0, start, inner)
        while width * block < size if isinstance(size, int) else width < block**2:
            width *= block

        def walked(lower: Int, upper: Int, width: int) -> Values:
            with b.loop(lower, upper, width, start) as loop:
                if width == 1:
                    loop.carry(self._at(dim, loop.index, loop.carried, inner))
                else:
                    end = b.minimum(b.add(loop.index, width), upper)
                    own = walked(loop.index, end, width // block)
                    loop.carry(join(loop.carried, own))
            return loop.results

        return walked(0, size, width)

    def _at(
        self, dim: int, position: Int, carried: Values, body: Callable[[Values], Values]
    ) -> Values:
        """Runs the body at one position of a dim, with what is to be read there."""
        self.position[dim] = position
        entered = [leaf for leaf in self.leaves if leaf not in self._read and self._is_ready(leaf)]
        for leaf in entered:
            self._read[leaf] = self.load(leaf)
        results = body(carried)
        for leaf in entered:
            del self._read[leaf]
        del self.position[dim]
        return results

    def _in_vectors(
        self, dim: int, carried: Values, body: Callable[[Values], Values], start: Int = 0
    ) -> Values:
        b, size, lanes = self.b, self.sizes[dim], self.full_lanes
        full = b.round_down(size, lanes)
        if full != start:
            with b.loop(start, full, lanes, carried) as loop:
                loop.carry(self._at(dim, loop.index, loop.carried, body))
            carried = loop.results
        return self.tail(dim, full, carried, body)

    def unrolled(self, copies: int, carried: Values, step: Callable[[Values], Values]) -> Values:
        """The dim in vectors, several at a time, each with its own share of what is carried."""
        b, dim = self.b, self.vector
        assert dim is not None
        width, lanes = len(carried) // copies, self.full_lanes
        full = b.round_down(self.sizes[dim], lanes * copies)
        if copies > 1 and full != 0:
            with b.loop(0, full, lanes * copies, carried) as loop:
                after: list[Value] = []
                for n in range(copies):
                    own = loop.carried[n * width : (n + 1) * width]
                    after += self._at(dim, b.add(loop.index, n * lanes), own, step)
                loop.carry(after)
            carried = loop.results
        first, others = carried[:width], carried[width:]
        start = full if copies > 1 else 0
        return [*self._in_vectors(dim, first, step, start), *others]

    @contextmanager
    def single(self) -> Generator[None]:
        """Meanwhile the nest reads and writes single elements: the lanes have been joined."""
        vector, self.vector = self.vector, None
        yield
        self.vector = vector

    def tail(
        self, dim: int, start: Int, carried: Values, body: Callable[[Values], Values]
    ) -> Values:
        """The elements from a multiple of the lanes on: one step with a mask, or none."""
        b, size, lanes = self.b, self.sizes[dim], self.full_lanes
        if start == size:
            return carried
        if lanes == 1:
            return carried

        def masked(position: Int, values: Values) -> Values:
            left = b.splat(self._left(b.sub(size, position)), lanes)
            numbers = b.lane_numbers(lanes)
            self.mask = b.op(vector(I1, lanes), f"icmp slt {numbers}, {left.text}")
            results = self._at(dim, position, values, body)
            self.mask = None
            return results

        if isinstance(size, int) and isinstance(start, int):
            return masked(start, carried)
        with b.loop(start, size, lanes, carried) as loop:
            loop.carry(masked(loop.index, loop.carried))
        return loop.results

    def _left(self, count: Int) -> Value:
        """How many lanes are on, which LLVM must not find out to be one: of a vector that is made
        narrower and stored under such a mask LLVM 22 stores the wide element, over what follows."""
        return self.b.value(count) if isinstance(count, int) and count > 1 else self.b.opaque(count)

    # --- reading --------------------------------------------------------------------------------

    def read(self, leaf: Leaf) -> Value:
        """The elements of a leaf at the current position, one for each lane."""
        value = self._read.get(leaf)
        if value is None:  # it depends on no loop
            value = self.load(leaf)
        return value if lanes_of(value.type) == self.lanes else self.b.extract(value, 0)

    def index(self, dim: int, offset: Int) -> Value:
        """offset + position along a dim, one for each lane, as i64."""
        b = self.b
        start = b.value(b.add(offset, self.position.get(dim, 0)))
        if dim != self.vector:
            return b.splat(start, self.lanes)
        kind, numbers = vector(I64, self.lanes), b.lane_numbers(self.lanes)
        if self.lanes == 1:
            return start
        return b.op(kind, f"add {b.splat(start, self.lanes)}, {numbers.text}")

    # --- writing --------------------------------------------------------------------------------

    def write(self, leaf: Leaf, value: Value) -> None:
        """Elements to where a leaf, which need not be read itself, is at the current position."""
        b, element = self.b, leaf.view.element
        if self.vector is None or self.lanes == 1:
            b.store(b.extract(value, 0), self._address(leaf), element)
            return
        stride = self._vector_stride(leaf)
        if stride == 1 and leaf.view.passing and self.mask is None:
            b.store_past_caches(value, self._address(leaf), element)
            return
        if stride == 1:
            store_vector(b, value, self._address(leaf), element, self.mask)
            return
        addresses = self._strided_addresses(leaf, stride)
        scatter(b, value, addresses, element, self.lanes, self.mask)

    def _is_ready(self, leaf: Leaf) -> bool:
        return leaf.depends_on() <= self.position.keys()

    def load(self, leaf: Leaf) -> Value:
        """The elements of a leaf as they are now."""
        b, view = self.b, leaf.view
        if self.vector is None or self.vector not in leaf.depends_on():
            single = b.load(self._address(leaf), view.element)
            return b.splat(single, self.lanes)
        if leaf.index is not None and self.vector in leaf.index.depends_on():
            return self._gather(self._gathered_addresses(leaf), view.element)
        stride = self._vector_stride(leaf)
        if stride == 1:
            return load_vector(b, self._address(leaf), view.element, self.lanes, self.mask)
        if is_near(stride) and self.mask is None:
            return load_every(b, self._address(leaf), view.element, self.lanes, stride)
        return self._gather(self._strided_addresses(leaf, stride), view.element)

    def _vector_stride(self, leaf: Leaf) -> Int:
        total: Int = 0
        for stride, dim in zip(leaf.view.strides, leaf.dims, strict=True):
            if dim == self.vector:
                total = self.b.add(total, stride)
        return total

    def _address(self, leaf: Leaf) -> Value:
        b, view = self.b, leaf.view
        at: list[Int] = [self.position.get(dim, 0) for dim in leaf.dims]
        if leaf.index is not None:
            at[leaf.index_dim] = b.extract(self._indices(leaf), 0)
        return view.at(b, at)

    def _indices(self, leaf: Leaf) -> Value:
        """The positions that a gather's index gives, kept within the dim: a `check` has told of
        those that are not, and the kernel runs on."""
        assert leaf.index is not None
        return within(self.b, self.read(leaf.index), leaf.view.sizes[leaf.index_dim])

    def _strided_addresses(self, leaf: Leaf, stride: Int) -> Value:
        b = self.b
        steps = b.splat(b.value(stride), self.lanes)
        numbers = b.lane_numbers(self.lanes)
        offsets = b.op(steps.type, f"mul {numbers}, {steps.text}")
        return self._addresses(leaf.view.element, self._address(leaf), offsets)

    def _gathered_addresses(self, leaf: Leaf) -> Value:
        """Addresses where both the index and other dims may change along the vector."""
        b, view = self.b, leaf.view
        assert leaf.index is not None
        total = b.splat(Value(I64, "0"), self.lanes)
        for n, (dim, stride) in enumerate(zip(leaf.dims, view.strides, strict=True)):
            at = self._indices(leaf) if n == leaf.index_dim else self.index(dim, 0)
            step = b.splat(b.value(stride), self.lanes)
            product = b.op(total.type, f"mul {at}, {step.text}")
            total = b.op(total.type, f"add {total}, {product.text}")
        return self._addresses(view.element, view.base, total)

    def _addresses(self, element: Attribute, base: Value, offsets: Value) -> Value:
        kind = memory_type(element)
        return self.b.op(
            vector(PTR, self.lanes), f"getelementptr {kind}, ptr {base.text}, {offsets}"
        )

    def _gather(self, addresses: Value, element: Attribute) -> Value:
        return gather(self.b, addresses, element, self.lanes, self.mask)


def within(b: Builder, positions: Value, size: Int) -> Value:
    """Positions along a dim, those outside of it replaced by its last."""
    last = b.splat(b.value(b.maximum(b.sub(size, 1), 0)), lanes_of(positions.type))
    return b.call(f"llvm.umin.{suffix(positions.type)}", positions.type, [positions, last])


# --- vectors and memory ---------------------------------------------------------------------------


def load_vector(
    b: Builder, address: Value, element: Attribute, lanes: int, mask: Value | None
) -> Value:
    """Consecutive elements; lanes that are off are 0 and not touched."""
    if mask is None:
        return b.load(address, element, lanes)
    kind, size = vector(memory_type(element), lanes), element_bytes(element)
    name = f"llvm.masked.load.{suffix(kind)}.p0"
    b.declare(name, f"{kind} (ptr, {mask.type}, {kind})")
    loaded = b.op(
        kind,
        f"call {kind} @{name}(ptr align {size} {address.text}, {mask}, {kind} zeroinitializer)",
    )
    return b.from_memory(loaded, element, lanes)


NEAR = 4
"""Elements that are at most so far apart are cheaper to load with those between than one by one."""


def is_near(stride: Int) -> TypeGuard[int]:
    return isinstance(stride, int) and 1 < stride <= NEAR


def load_every(b: Builder, address: Value, element: Attribute, lanes: int, stride: int) -> Value:
    """Elements a few apart: all from the first to the last are loaded, and no more."""
    wide, last = lanes * stride, (lanes - 1) * stride
    on = ", ".join(f"i1 {'true' if n <= last else 'false'}" for n in range(wide))
    loaded = load_vector(b, address, element, wide, Value(vector(I1, wide), f"<{on}>"))
    chosen = ", ".join(f"i32 {n * stride}" for n in range(lanes))
    return b.op(
        vector(element_of(loaded.type), lanes),
        f"shufflevector {loaded}, {loaded.type} poison, <{lanes} x i32> <{chosen}>",
    )


def store_vector(
    b: Builder, value: Value, address: Value, element: Attribute, mask: Value | None
) -> None:
    """Consecutive elements; lanes that are off are not touched."""
    if mask is None:
        b.store(value, address, element)
        return
    stored, size = b.to_memory(value, element), element_bytes(element)
    name = f"llvm.masked.store.{suffix(stored.type)}.p0"
    b.declare(name, f"void ({stored.type}, ptr, {mask.type})")
    b.emit(f"call void @{name}({stored}, ptr align {size} {address.text}, {mask})")


def gather(
    b: Builder, addresses: Value, element: Attribute, lanes: int, mask: Value | None
) -> Value:
    """Elements at any addresses."""
    if lanes == 1:
        return b.load(addresses, element)
    kind, size = vector(memory_type(element), lanes), element_bytes(element)
    mask = mask or b.splat(TRUE, lanes)
    name = f"llvm.masked.gather.{suffix(kind)}.v{lanes}p0"
    b.declare(name, f"{kind} ({addresses.type}, {mask.type}, {kind})")
    loaded = b.op(
        kind,
        f"call {kind} @{name}({addresses.type} align {size} "
        f"{addresses.text}, {mask}, {kind} zeroinitializer)",
    )
    return b.from_memory(loaded, element, lanes)


def scatter(
    b: Builder, value: Value, addresses: Value, element: Attribute, lanes: int, mask: Value | None
) -> None:
    """Elements to distinct addresses."""
    if lanes == 1:
        b.store(value, addresses, element)
        return
    stored, size = b.to_memory(value, element), element_bytes(element)
    mask = mask or b.splat(TRUE, lanes)
    name = f"llvm.masked.scatter.{suffix(stored.type)}.v{lanes}p0"
    b.declare(name, f"void ({stored.type}, {addresses.type}, {mask.type})")
    b.emit(f"call void @{name}({stored}, {addresses.type} align {size} {addresses.text}, {mask})")
