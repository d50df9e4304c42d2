"""``lpu-run``: compiles a function of lpu_graph operations and runs it on tensors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException, ParseError

from lpu_mlir.compile import make_program
from lpu_mlir.debug.inputs import generate, load
from lpu_mlir.debug.kernels import side_by_side
from lpu_mlir.debug.measure import MismatchError, distance
from lpu_mlir.frontend.importer import ImportedGraph
from lpu_mlir.frontend.interface import TensorInput
from lpu_mlir.frontend.outputs import OUTPUTS, index_attr
from lpu_mlir.model.target import TARGETS, get_target
from lpu_mlir.options import CHOICES, Options
from lpu_mlir.pipeline import PipelineError, make_context, run_stages, stages
from lpu_mlir.runtime.describe.signature import describe_signature
from lpu_mlir.runtime.executable import Executable
from lpu_mlir.runtime.layout import Layout
from lpu_mlir.runtime.numbers import Symbols, numbers
from lpu_mlir.runtime.stats import Runnable


def parse(path: Path) -> ImportedGraph:
    """The function @main of a file, as the frontend makes it.

    Without `lpu.outputs` each result of the function is an output.
    """
    module = Parser(make_context(), path.read_text(), str(path)).parse_module()
    module.verify()
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            op.attributes.setdefault(OUTPUTS, _each_result(op))
            count = len(op.function_type.inputs)
            return ImportedGraph(module, op, tuple(map(TensorInput, range(count))), (), ())
    raise ValueError(f"{path}: no function @main")


def _each_result(function: FuncOp) -> ArrayAttr[DictionaryAttr]:
    kind = StringAttr("result")
    indices = map(index_attr, range(len(function.function_type.outputs)))
    return ArrayAttr([DictionaryAttr({"kind": kind, "index": index}) for index in indices])


def compile_module(module: ModuleOp, options: Options) -> Runnable:
    """The program of a module of graph operations; with "compare" each kernel is run both ways."""
    run_stages(module, stages(get_target(options.target)))
    make = side_by_side if options.interpreter == "compare" else make_program
    return make(module, options)


def read_symbols(text: str) -> Symbols:
    """Values of symbols from `s0=3,s1=8`; ValueError for anything else."""
    pairs = (pair.split("=") for pair in text.split(","))
    return {name: int(value) for name, value in pairs}


def make_inputs(
    layouts: Sequence[Layout], symbols: Symbols, seed: int, stored: Path | None
) -> list[Tensor]:
    """The arguments: stored under their positions, or from seeds that count up."""
    found: list[Tensor] = []
    for i, layout in enumerate(layouts):
        shape, strides = (numbers(values)(symbols) for values in (layout.shape, layout.strides))
        if stored is not None:
            found.append(load(stored, str(i), layout.dtype, shape, strides))
        else:
            found.append(generate(layout.dtype, shape, strides, seed + i))
    return found


def expected_of(path: Path, name: str, like: Tensor) -> Tensor:
    """What is stored for an output, which has the same dtype and shape."""
    return load(path, name, like.dtype, like.shape, like.contiguous().stride())


def run(arguments: argparse.Namespace) -> int:
    graph = parse(arguments.file)
    signature = describe_signature(graph)
    options = Options(interpreter=arguments.interpreter, target=arguments.target)
    program = compile_module(graph.module, options)
    inputs = make_inputs(signature.arguments, arguments.symbols, arguments.seed, arguments.inputs)
    outputs = Executable(signature, program)(list(inputs))
    values = {f"output{i}": value for i, value in enumerate(outputs) if isinstance(value, Tensor)}
    values |= {f"input{i}": value for i, value in enumerate(inputs)}
    failed = False
    for name, value in values.items():
        if arguments.expect is None:
            if name.startswith("output"):
                print(f"{name} = {value}")
            continue
        try:
            found = distance(value, expected_of(arguments.expect, name, value))
        except KeyError:
            continue  # nothing is expected of it
        if found is not None:
            failed = True
            print(f"{name}: {found}", file=sys.stderr)
    return int(failed)


FAULTS = (DiagnosticException, MismatchError, OSError, ParseError, PipelineError, ValueError)
"""What is said in a line."""


def main(args: Sequence[str] | None = None) -> int:
    """Run on the command line's arguments; 1 if something is at fault or not as expected."""
    parser = argparse.ArgumentParser("lpu-run", description=__doc__)
    parser.add_argument("file", type=Path, help="a .mlir file with a function @main")
    parser.add_argument("--seed", type=int, default=0, help="makes the arguments (default: 0)")
    parser.add_argument("--inputs", type=Path, help="an .npz file that has the arguments")
    parser.add_argument("--expect", type=Path, help="an .npz file that has the results")
    parser.add_argument(
        "--symbols", type=read_symbols, default={}, help="values of symbols, such as s0=3,s1=8"
    )
    parser.add_argument("--target", choices=TARGETS, default="bertha")
    parser.add_argument(
        "--interpreter",
        choices=CHOICES["interpreter"],
        default=Options.interpreter,
        help="what runs the kernels; compare: each one both ways (default: %(default)s)",
    )
    try:
        with torch.no_grad():
            return run(parser.parse_args(args))
    except FAULTS as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
