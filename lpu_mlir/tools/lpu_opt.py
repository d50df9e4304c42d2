"""``lpu-opt``: reads IR, applies passes, writes IR. xDSL's driver with our dialects and passes."""

import sys
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from lpu_mlir.dialects import get_all_dialects
from lpu_mlir.transforms import get_all_passes
from lpu_mlir.transforms.verify_dominance import check_dominance


class LpuOptMain(xDSLOptMain):
    """
    xDSL's driver with the dialects and passes of this package beside xDSL's own (``canonicalize``,
    ``cse``, ``dce``, ...), and with SSA dominance verified before the first pass and after each.
    """

    def __init__(self, args: Sequence[str] | None = None):
        super().__init__(description="LPU modular optimizer driver", args=args)

    def register_all_dialects(self) -> None:
        super().register_all_dialects()
        # They are there already where the package is installed, through its entry point.
        for name, factory in get_all_dialects().items():
            if name not in self.ctx.registered_dialect_names:
                self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        super().register_all_passes()
        self.available_passes.update(get_all_passes())

    def setup_pipeline(self) -> None:
        super().setup_pipeline()
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
    except (DiagnosticException, ParseError) as error:
        print(error, *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
