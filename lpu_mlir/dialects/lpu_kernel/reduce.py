"""Combining the elements of tiles: folds, scans and contractions. Everything here is pure."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    bf16,
    f16,
    i1,
    i64,
)
from xdsl.dialects.utils import DynamicIndexList
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from lpu_mlir.dialects.lpu import scalar_type
from lpu_mlir.dialects.lpu_kernel.compute import TileOp, verify_same_element
from lpu_mlir.dialects.lpu_kernel.types import (
    INTEGERS,
    INTS,
    Index,
    TileType,
    Word,
    dense,
    is_float,
    split_indices,
    tile,
    verify_dims,
    verify_indices,
    verify_word,
    without,
)

FOLD_KINDS = ("add", "mul", "max", "min", "and", "or", "xor")
SCAN_KINDS = ("add", "mul", "max", "min")
ARG_FOLD_KINDS = ("max", "min")


def verify_combiner(kind: str, element: Attribute) -> None:
    """Check that elements of this type can be combined by this kind of fold or scan."""
    if kind in ("and", "or", "xor"):
        if element != i1 and element not in INTEGERS:
            raise VerifyException(f"'{kind}' needs integers or i1, got {element}")
    elif kind in ("add", "mul"):
        if element in (i1, f16, bf16) or element != scalar_type(element):
            raise VerifyException(
                f"'{kind}' accumulates in the element type, expected f32, f64 or a signless "
                f"integer, got {element}"
            )


@irdl_op_definition
class FoldOp(TileOp):
    """
    Combines the elements along some dims, which the result lacks. Over nothing it yields the
    kind's identity (0, 1, the lowest or highest value, all ones). `max` and `min` yield NaN if any
    element is NaN. With `acc` the result is the accumulator combined with the fold.

    The element type is the accumulator's: what is narrower is extended by a map before.

    ```mlir
    %s = lpu_kernel.fold add %t [1] acc(%a) : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>
    ```
    """

    name = "lpu_kernel.fold"
    kind = prop_def(StringAttr)
    source = operand_def(TileType)
    dims = prop_def(INTS)
    acc = opt_operand_def(TileType)

    irdl_options = ()
    assembly_format = (
        "custom<Word>($kind) $source $dims (`acc` `(` $acc^ `:` type($acc) `)`)? "
        "(`sram` $sram^)? attr-dict `:` type($source) `->` type($result)"
    )

    def __init__(
        self,
        kind: str,
        source: SSAValue | Operation,
        dims: Sequence[int],
        result: TileType,
        *,
        acc: SSAValue | Operation | None = None,
    ):
        super().__init__(
            operands=[source, acc],
            result_types=[result],
            properties={"kind": StringAttr(kind), "dims": dense(dims)},
        )

    def verify_(self) -> None:
        verify_word("fold", self.kind, FOLD_KINDS)
        source, result = tile(self.source), tile(self.result)
        verify_combiner(self.kind.data, source.element_type)
        dims = self.dims.get_values()
        verify_dims("fold dims", dims, source.get_num_dims())
        verify_same_element(source, result)
        verify_reduced("result", source, dims, result)
        verify_carried("accumulator", self.acc, result)


def verify_reduced(what: str, source: TileType, dims: Sequence[int], result: TileType) -> None:
    """Check that a tile type has the source's capacity without these dims."""
    expected = without(source.get_shape(), dims)
    if result.get_shape() != expected:
        raise VerifyException(
            f"expected a {what} of capacity {list(expected)}, got {list(result.get_shape())}"
        )


def verify_carried(what: str, value: SSAValue | None, type: TileType) -> None:
    """Check that a value carried in has the type of the one carried out."""
    if value is not None and value.type != type:
        raise VerifyException(f"{what} is {value.type}, expected {type}")


@irdl_op_definition
class ArgFoldOp(IRDLOperation):
    """
    The extreme along one dim and where it is first, as torch's argmax: NaN beats everything, and
    of equals the lowest index counts. Indices are `at` plus the position. With `acc`, a pair of
    values and indices, the better of that and this. Without, the extent may not be 0.

    ```mlir
    %v, %i = lpu_kernel.arg_fold max %t dim 1 at [%off] acc(%v0, %i0)
      : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xi64>
    ```
    """

    name = "lpu_kernel.arg_fold"
    kind = prop_def(StringAttr)
    source = operand_def(TileType)
    dim = prop_def(IntegerAttr[I64])
    at = var_operand_def(IndexType)
    static_at = prop_def(INTS)
    acc = var_operand_def(TileType)
    values = result_def(TileType)
    indices = result_def(TileType)
    sram = opt_prop_def(INTS)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    custom_directives = (DynamicIndexList, Word)
    assembly_format = (
        "custom<Word>($kind) $source `dim` $dim `at` custom<DynamicIndexList>($at, $static_at) "
        "(`acc` `(` $acc^ `:` type($acc) `)`)? (`sram` $sram^)? attr-dict "
        "`:` type($source) `->` type($values) `,` type($indices)"
    )

    def __init__(
        self,
        kind: str,
        source: SSAValue | Operation,
        dim: int,
        values: TileType,
        indices: TileType,
        *,
        at: Index | Operation = 0,
        acc: tuple[SSAValue, SSAValue] | None = None,
    ):
        dynamic, static = split_indices([at])
        super().__init__(
            operands=[source, dynamic, () if acc is None else acc],
            result_types=[values, indices],
            properties={
                "kind": StringAttr(kind),
                "dim": IntegerAttr(dim, i64),
                "static_at": static,
            },
        )

    def verify_(self) -> None:
        verify_word("arg_fold", self.kind, ARG_FOLD_KINDS)
        source, values, indices = tile(self.source), tile(self.values), tile(self.indices)
        dims = (self.dim.value.data,)
        verify_dims("dim", dims, source.get_num_dims())
        if len(self.static_at) != 1:
            raise VerifyException(f"expected one offset after 'at', got {len(self.static_at)}")
        verify_indices("offset", self.at, self.static_at, 1)
        verify_same_element(source, values)
        verify_reduced("result", source, dims, values)
        verify_reduced("result", source, dims, indices)
        if indices.element_type != i64:
            raise VerifyException(f"indices are i64, got {indices.element_type}")
        if len(self.acc) not in (0, 2):
            raise VerifyException("an accumulator is a tile of values and a tile of indices")
        for carried, type in zip(self.acc, (values, indices), strict=False):
            verify_carried("accumulator", carried, type)


@irdl_op_definition
class ScanOp(TileOp):
    """
    The inclusive prefixes along one dim; a carry is combined in front.

    ```mlir
    %p = lpu_kernel.scan add %t dim 1 carry(%c : !lpu_kernel.tile<8xf32>)
           : !lpu_kernel.tile<8x64xf32>
    ```
    """

    name = "lpu_kernel.scan"
    kind = prop_def(StringAttr)
    source = operand_def(TileType)
    dim = prop_def(IntegerAttr[I64])
    carry = opt_operand_def(TileType)

    irdl_options = ()
    assembly_format = (
        "custom<Word>($kind) $source `dim` $dim (`carry` `(` $carry^ `:` type($carry) `)`)? "
        "(`sram` $sram^)? attr-dict `:` type($source) `->` type($result)"
    )

    def __init__(
        self,
        kind: str,
        source: SSAValue | Operation,
        dim: int,
        *,
        carry: SSAValue | Operation | None = None,
    ):
        source = SSAValue.get(source)
        super().__init__(
            operands=[source, carry],
            result_types=[tile_type_of(source)],
            properties={"kind": StringAttr(kind), "dim": IntegerAttr(dim, i64)},
        )

    def verify_(self) -> None:
        verify_word("scan", self.kind, SCAN_KINDS)
        source, result = tile(self.source), tile(self.result)
        verify_combiner(self.kind.data, source.element_type)
        dims = (self.dim.value.data,)
        verify_dims("dim", dims, source.get_num_dims())
        verify_same_element(source, result)
        verify_reduced("result", source, (), result)
        if self.carry is not None:
            verify_same_element(source, tile(self.carry))
            verify_reduced("carry", source, dims, tile(self.carry))


def tile_type_of(value: SSAValue) -> TileType:
    type = tile(value)
    return TileType(type.element_type, type.get_shape())


@irdl_op_definition
class ContractOp(TileOp):
    """
    A sum of products over named dims, as the matrix unit computes it.

    Each operand numbers its dims: numbers below the result's rank are the result's dims, the rest
    are summed. Operands may be narrower floats than the result: they are widened exactly before
    multiplying, and the sum is accumulated in the result's type. With `acc` the sum is added to it.

    ```mlir
    %c = lpu_kernel.contract %a as [0, 2], %b as [1, 2] acc(%c0 : !lpu_kernel.tile<8x4xf32>)
      : !lpu_kernel.tile<8x64xbf16>, !lpu_kernel.tile<4x64xbf16> -> !lpu_kernel.tile<8x4xf32>
    ```
    """

    name = "lpu_kernel.contract"
    lhs = operand_def(TileType)
    lhs_dims = prop_def(INTS)
    rhs = operand_def(TileType)
    rhs_dims = prop_def(INTS)
    acc = opt_operand_def(TileType)

    irdl_options = ()
    assembly_format = (
        "$lhs `as` $lhs_dims `,` $rhs `as` $rhs_dims (`acc` `(` $acc^ `:` type($acc) `)`)? "
        "(`sram` $sram^)? attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)"
    )

    def __init__(
        self,
        lhs: SSAValue | Operation,
        lhs_dims: Sequence[int],
        rhs: SSAValue | Operation,
        rhs_dims: Sequence[int],
        result: TileType,
        *,
        acc: SSAValue | Operation | None = None,
    ):
        super().__init__(
            operands=[lhs, rhs, acc],
            result_types=[result],
            properties={"lhs_dims": dense(lhs_dims), "rhs_dims": dense(rhs_dims)},
        )

    def verify_(self) -> None:
        result = tile(self.result)
        operands = (
            (tile(self.lhs), self.lhs_dims.get_values()),
            (tile(self.rhs), self.rhs_dims.get_values()),
        )
        capacity: dict[int, int] = dict(enumerate(result.get_shape()))
        for type, dims in operands:
            self._verify_operand(type, dims, capacity)
        named = {dim for _, dims in operands for dim in dims}
        if missing := set(range(result.get_num_dims())) - named:
            raise VerifyException(f"result dims {sorted(missing)} are named by no operand")
        verify_combiner("add", result.element_type)
        verify_carried("accumulator", self.acc, result)

    def _verify_operand(
        self, type: TileType, dims: Sequence[int], capacity: dict[int, int]
    ) -> None:
        if len(dims) != type.get_num_dims() or len(set(dims)) != len(dims):
            raise VerifyException(
                f"operand of rank {type.get_num_dims()} numbers its dims {list(dims)}, "
                "expected one distinct number each"
            )
        for dim, size in zip(dims, type.get_shape(), strict=True):
            if capacity.setdefault(dim, size) != size:
                raise VerifyException(
                    f"dim {dim} has capacity {size} in one place and {capacity[dim]} in another"
                )
        accumulator = tile(self.result).element_type
        if is_float(type.element_type) != is_float(accumulator) or width(type.element_type) > width(
            accumulator
        ):
            raise VerifyException(
                f"operand of {type.element_type} cannot be accumulated in {accumulator}"
            )


def width(element: Attribute) -> int:
    """Bits of an element type."""
    assert isinstance(element, IntegerType | AnyFloat)
    return element.bitwidth
