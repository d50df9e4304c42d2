"""What a nest computes, as expressions: the form in which fusion and lowering think.

`scalar` holds the expressions, `nest` reads them from `lpu_loop.nest` and writes them back.
"""
