"""From a nest's expressions to a kernel's tiles.

`access` turns loads and stores into strided views, `split` cuts and splits dims until every index is
affine, `plan` chooses cores and tile sizes, `emit` writes the operations.
"""
