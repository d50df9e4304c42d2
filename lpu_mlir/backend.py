"""The entry of `torch.compile(model, backend="lpu_mlir")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pkgutil import resolve_name
from typing import Any

from torch import fx

from lpu_mlir.capture import Boxed, compile_cached, compile_captured, compile_function
from lpu_mlir.options import Options, make_options
from lpu_mlir.report import Report
from lpu_mlir.stored import cache_tag, compile_backward, compile_stored

COMPILERS: Mapping[str, str] = {
    "native": "lpu_mlir.compile:compile_fx",
    "reference": "lpu_mlir.compile:compile_fx",
    "compare": "lpu_mlir.debug.compare:compile_checked",
}
"""Interpreter -> what compiles for it; imported when there is something to compile."""


def lpu_mlir(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph that Dynamo captured; see `lpu_mlir.options.Options` for the options."""
    made = make_options(mode, options)
    tag = cache_tag(made)
    if tag is None:
        return compile_captured(gm, example_inputs, partial(_compile, made), freeze=made.freeze)
    forward, backward = partial(compile_stored, made), partial(compile_backward, made)
    return compile_cached(gm, example_inputs, forward, backward, tag, freeze=made.freeze)


def _compile(options: Options, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Boxed:
    return resolve_name(COMPILERS[options.interpreter])(gm, example_inputs, options)


def explain(fn: Callable[..., Any], **compile_options: Any) -> Callable[..., Report]:
    """`explain(fn, **compile_options)(*args, **kwargs)` compiles `fn`, calls it once and reports.

    `compile_options` are those of `torch.compile` without `backend`.  To report on several calls,
    or to use what they return, open a `Report` around them instead.
    """

    def run(*args: Any, **kwargs: Any) -> Report:
        with Report() as report:
            compile_function(fn, lpu_mlir, **compile_options)(*args, **kwargs)
        return report

    return run
