"""Contractions: matrix-vector products, matrix products and convolutions by windows."""

from lpu_mlir.interpreter.native.contract.emit import emit_contract as emit_contract
