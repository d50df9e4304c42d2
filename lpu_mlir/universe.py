"""What this package offers to every xDSL tool in the same environment, such as ``xdsl-opt``."""

from xdsl.universe import Universe

from lpu_mlir.dialects import get_all_dialects
from lpu_mlir.transforms import get_all_passes

# Only names and factories: a stock xdsl-opt that uses none of ours imports none of ours.
LPU_UNIVERSE = Universe(all_dialects=get_all_dialects(), all_passes=get_all_passes())
