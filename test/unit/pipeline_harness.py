"""
The whole pipeline on functions of `lpu_graph`: lowered for two targets, run, compared with PyTorch.

The functions are in pipeline/*.mlir, one for each case. What it runs on is said before a function:

    // symbols s0 = 1, 5, 40       one run for each value (the n-th of every symbol)
    // input 1 in 0..96            argument 1 is drawn from [0, 96)
    // approximate                 what rounds, within PyTorch's tolerances for its element type

Inputs are small whole numbers, so that sums and products are exact in whatever order they are made:
without `approximate`, results must be equal to the last bit.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from graph_evaluator import Evaluator
from torch import Tensor
from torch.testing._comparison import default_tolerances
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.parser import Parser

from lpu_mlir.dialects.expr import contiguous_strides
from lpu_mlir.dialects.lpu import ShapeAttr, element_type, extents
from lpu_mlir.interpreter.reference import InterpreterParams
from lpu_mlir.interpreter.reference.scalar import DTYPES
from lpu_mlir.model.target import TARGETS
from lpu_mlir.pipeline import make_context, run_stages, stages
from lpu_mlir.runtime.describe.program import describe_program
from lpu_mlir.runtime.native import NativeProgram
from lpu_mlir.runtime.program import Program
from lpu_mlir.runtime.stats import KernelUse, Runnable, RunStats

Symbols = dict[str, int]
Ranges = dict[int, tuple[int, int]]


@dataclass(frozen=True)
class Case:
    """A function, the symbol values it runs with, and the half-open ranges of its arguments."""

    name: str
    text: str
    runs: Sequence[Symbols] = ({},)
    ranges: tuple[tuple[int, tuple[str, str]], ...] = ()
    exact: bool = True

    def module(self) -> ModuleOp:
        """The module, in which the function is called main."""
        module = Parser(make_context(), self.text).parse_module()
        module.verify()
        function_of(module, self.name).sym_name = StringAttr("main")
        return module

    def range(self, argument: int, symbols: Symbols) -> tuple[int, int]:
        low, high = dict(self.ranges).get(argument, ("-4", "5"))
        return int(low), symbols.get(high) or int(high)


def read_case(text: str) -> Case:
    values = {
        name: [int(v) for v in listed.split(",")]
        for name, listed in re.findall(r"^// symbols (\w+) = (.*)$", text, re.M)
    }
    runs = [dict(zip(values, run, strict=True)) for run in zip(*values.values(), strict=True)]
    ranges = re.findall(r"^// input (\d+) in (\S+)\.\.(\S+)$", text, re.M)
    names = re.findall(r"^func\.func @(\w+)", text, re.M)
    return Case(
        names[0],
        text,
        runs or [{}],
        tuple((int(i), (low, high)) for i, low, high in ranges),
        "// approximate" not in text,
    )


def read_cases(path: Path) -> list[Case]:
    return [read_case(part) for part in path.read_text().split("// -----\n")]


# --- tensors for a function ---------------------------------------------------------------------


def function_of(module: ModuleOp, name: str = "main") -> FuncOp:
    [function] = [f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data == name]
    return function


def empties(
    types: Sequence[Attribute], attrs: ArrayAttr[DictionaryAttr] | None, symbols: Symbols
) -> list[Tensor]:
    """A tensor laid out as each type and its `lpu.strides` say."""
    made = []
    for i, type_ in enumerate(types):
        given = attrs.data[i].data.get("lpu.strides") if attrs is not None else None
        shape = extents(type_)
        steps = given.data if isinstance(given, ShapeAttr) else contiguous_strides(shape)
        sizes, strides = ([e.evaluate(symbols) for e in exprs] for exprs in (shape, steps))
        made.append(torch.empty_strided(sizes, strides, dtype=DTYPES[element_type(type_)]))
    return made


def draw(tensor: Tensor, low: int, high: int) -> Tensor:
    if tensor.dtype == torch.bool:
        low, high = 0, 2
    elif tensor.dtype == torch.uint8 and low < 0:
        low, high = 0, 256
    return tensor.copy_(torch.randint(low, high, tensor.shape))


def make_inputs(case: Case, symbols: Symbols) -> list[Tensor]:
    torch.manual_seed(len(case.text))
    main = function_of(case.module())
    tensors = empties(main.function_type.inputs.data, main.arg_attrs, symbols)
    return [draw(tensor, *case.range(i, symbols)) for i, tensor in enumerate(tensors)]


# --- running ------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a run leaves: the results, and the arguments afterwards."""

    results: list[Tensor]
    arguments: list[Tensor]


def evaluate(case: Case, symbols: Symbols, inputs: Sequence[Tensor]) -> Outcome:
    """What PyTorch says."""
    evaluator = Evaluator(function_of(case.module()), dict(symbols))
    results = [result.clone() for result in evaluator.run([i.contiguous() for i in inputs])]
    arguments = [evaluator.written.get(i, tensor).clone() for i, tensor in enumerate(inputs)]
    return Outcome(results, arguments)


class Compiled:
    """A case lowered for a target."""

    def __init__(self, case: Case, target: str):
        self.module = case.module()
        main = function_of(self.module)
        self.types, self.attrs = main.function_type.outputs.data, main.res_attrs
        run_stages(self.module, stages(TARGETS[target]), verify=True)
        params = InterpreterParams(seed=3, sram_bytes=TARGETS[target].sram_bytes)
        self.program = Program(self.module, params)
        self.stats = RunStats()

    def run(
        self, symbols: Symbols, inputs: Sequence[Tensor], program: Runnable | None = None
    ) -> Outcome:
        """Runs on copies of the inputs, interpreted if no other program is given."""
        program = program or self.program
        arguments = [torch.empty_strided(i.shape, i.stride(), dtype=i.dtype) for i in inputs]
        for argument, given in zip(arguments, inputs, strict=True):
            argument.copy_(given)
        made, self.stats = program.returned, RunStats()
        results = empties(self.types, self.attrs, symbols)
        provided = [result for i, result in enumerate(results) if i not in made]
        returned = program.execute(arguments, provided, dict(symbols), self.stats)
        for position, result in zip(made, returned, strict=True):
            results[position] = result
        return Outcome(results, arguments)


def check(case: Case, target: str, inputs: Sequence[Tensor] | None = None) -> None:
    """Interpreted and as machine code, which may add in another order."""
    compiled = Compiled(case, target)
    native = NativeProgram(describe_program(compiled.module))
    for symbols in case.runs:
        given = make_inputs(case, symbols) if inputs is None else inputs
        expected = evaluate(case, symbols, given)
        uses: list[dict[str, KernelUse]] = []
        for program, slack in ((compiled.program, 1), (native, 4)):
            got = compiled.run(symbols, given, program)
            uses.append(compiled.stats.kernels)
            said = f"{type(program).__name__} with {symbols}"
            agree(got.results, expected.results, case.exact, slack, f"{said}, results")
            agree(got.arguments, expected.arguments, case.exact, slack, f"{said}, arguments")
        assert uses[0] == uses[1], f"counted while running, and without: {symbols}"


def agree(
    got: Sequence[Tensor], expected: Sequence[Tensor], exact: bool, slack: float, said: str
) -> None:
    for mine, theirs in zip(got, expected, strict=True):
        rtol, atol = (0.0, 0.0) if exact else default_tolerances(theirs)
        torch.testing.assert_close(
            mine,
            theirs,
            rtol=slack * rtol,
            atol=slack * atol,
            equal_nan=True,
            check_stride=False,
            msg=lambda text: f"{said}: {text}",
        )
