"""From a nest's expressions to a kernel's tiles.

`split` cuts and splits dims until every index is affine, `access` turns loads and stores into
strided views, `plan` chooses cores and tile sizes, `emit` writes the operations with the help of
`scope` (what is known of dims and tiles), `online` (sums weighted by exponentials, as in
attention), `writer` (loops and arguments) and `region` (the bodies of maps).
"""
