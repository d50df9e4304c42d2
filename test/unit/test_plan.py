"""Tile plans of programs that once needed more SRAM than there is."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from lpu_mlir.compile import compile_fx
from lpu_mlir.frontend.decompositions import decompositions
from lpu_mlir.options import Options

pytestmark = pytest.mark.sampled


def parts_with_channels(x: torch.Tensor) -> list[torch.Tensor]:
    """Each part of the concatenation has channels of its own, all alive in one phase."""
    return [torch.cat([x, x + 1, x], 1)]


def constant_scattered(x: torch.Tensor) -> list[torch.Tensor]:
    """Neither the constant nor the positions are loaded, but the store needs tiles of both."""
    return [x.index_fill(1, torch.arange(x.shape[1] - 1, 0, -2), 2)]


def constant(x: torch.Tensor) -> list[torch.Tensor]:
    return [torch.full((x.shape[0], x.shape[1], x.shape[0]), 3.0)]


@pytest.mark.parametrize("function", [parts_with_channels, constant_scattered, constant])
@pytest.mark.parametrize("target", ["tiny", "bertha"])
def test_symbolic_extents_fit(function, target: str):
    x = torch.arange(105.0).reshape(7, 5, 3)
    graph = make_fx(function, decomposition_table=dict(decompositions()), tracing_mode="symbolic")(
        x
    )
    compiled = compile_fx(graph, [x], Options(target=target, verify=True))
    assert torch.equal(compiled([x])[0], function(x)[0])


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_products_of_expanded_operands(mode: str):
    """The windows of the operands lack a dim of the product; its tiles count in the plan."""
    column = torch.arange(35.0).reshape(7, 5, 1)
    x, y = column.expand(7, 5, 40), column.expand(7, 5, 40).transpose(1, 2)
    graph = make_fx(lambda x, y: [x @ y, x.sum((1, 2))], tracing_mode=mode)(x, y)
    got = compile_fx(graph, [x, y], Options(target="tiny", verify=True))([x, y])
    assert torch.equal(got[0], x @ y)
    assert torch.equal(got[1], x.sum((1, 2)))


def test_sums_of_repeated_values():
    """What is summed does not depend on the dim along which it is repeated."""

    def attention(x: torch.Tensor) -> torch.Tensor:
        keys = x.repeat_interleave(40, -2)
        return (x * 0.05 @ keys.mT).softmax(-1) @ keys

    x = torch.randn(33, 3)
    table = dict(decompositions())
    graph = make_fx(attention, decomposition_table=table, tracing_mode="symbolic")(x)
    got = compile_fx(graph, [x], Options(target="tiny", verify=True))([x])
    torch.testing.assert_close(got[0], attention(x))
