"""``lpu-opt``: reads IR, applies passes, writes IR. xDSL's driver with our dialects and passes."""

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from lpu_mlir.dialects import get_all_dialects
from lpu_mlir.transforms import get_all_passes
from lpu_mlir.transforms.verify_dominance import check_dominance

AT_FAULT = (ArgSpecParseError, DiagnosticException, ParseError)
"""What xDSL raises for a wrong input, pipeline, or use of a pass."""


class UsageError(Exception):
    """What the command line asks for does not exist."""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """The passes at the end; they are imported only then, for what their docstrings say."""

    _complete = False

    def add_argument(self, action: argparse.Action) -> None:
        self._complete = True
        if action.dest == "passes":
            action.help = "passes with a comma between them; options in braces: outline,dce"
        super().add_argument(action)

    def format_help(self) -> str:
        text = super().format_help()
        return f"{text}\n{describe_passes()}\n" if self._complete else text


def summarize_pass(get: Callable[[], type[ModulePass]]) -> str:
    """The first sentence of a pass's docstring, or why its module cannot be imported: a pass that
    is being written must not take the help on all others away."""
    try:
        documentation = get().__doc__ or ""
    except Exception as error:
        return f"cannot be imported: {type(error).__name__}: {error}"
    return re.split(r"(?<=\.) ", " ".join(documentation.split()))[0]


def describe_passes() -> str:
    """Our passes with the first sentence of their docstrings, and the names of xDSL's."""
    ours = get_all_passes()
    width = max(map(len, ours)) + 2
    lines = ["passes of lpu_mlir:"]
    for name, get in sorted(ours.items()):
        said = textwrap.wrap(summarize_pass(get), 98 - width) or [""]
        lines.append(f"  {name:{width}}{said[0]}".rstrip())
        lines += [" " * (width + 2) + line for line in said[1:]]
    theirs = sorted(Universe.get_multiverse().all_passes.keys() - ours.keys())
    lines += ["", "passes of xDSL:", *textwrap.wrap(", ".join(theirs), 98, break_on_hyphens=False)]
    return "\n".join(lines)


def _llvm_ir() -> type[Target]:
    from lpu_mlir.interpreter.native.target import LlvmIrTarget

    return LlvmIrTarget


class LpuOptMain(xDSLOptMain):
    """
    xDSL's driver with the dialects and passes of this package beside xDSL's own (``canonicalize``,
    ``cse``, ``dce``, ...), and with SSA dominance verified before the first pass and after each.
    """

    def __init__(self, args: Sequence[str] | None = None):
        super().__init__(description="LPU modular optimizer driver", args=args)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog = "lpu-opt"
        arg_parser.formatter_class = _HelpFormatter

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        """Standard input is taken for `-`, too."""
        if self.args.input_file == "-":
            return sys.stdin.buffer, "mlir"
        return super().get_input_stream()

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        try:
            return super().prepare_input()
        except ValueError as error:  # the file's extension
            raise UsageError(f"{self.args.input_file}: {error}") from error

    def register_all_dialects(self) -> None:
        super().register_all_dialects()
        # They are there already where the package is installed, through its entry point.
        for name, factory in get_all_dialects().items():
            if name not in self.ctx.registered_dialect_names:
                self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        super().register_all_passes()
        self.available_passes.update(get_all_passes())

    def register_all_targets(self) -> None:
        super().register_all_targets()
        self.available_targets["llvm-ir"] = _llvm_ir

    def setup_pipeline(self) -> None:
        try:
            super().setup_pipeline()
        except ValueError as error:  # an unknown pass, or an unknown option of one
            raise UsageError(f"-p {self.args.passes}: {error}") from error
        verify_and_report = self.pipeline.callback
        assert verify_and_report is not None

        def callback(
            previous: ModulePass | None, module: ModuleOp, following: ModulePass | None
        ) -> None:
            verify_and_report(previous, module, following)
            if not self.args.disable_verify:
                check_dominance(module)

        self.pipeline = PassPipeline(self.pipeline.passes, callback)


def main() -> int:
    """Run the driver on the command line's arguments; 1 if the input or a pass is at fault."""
    try:
        LpuOptMain().run()
    except (*AT_FAULT, UsageError, OSError) as error:
        print(error, *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
