"""From lowered IR to the data that programs are built from, see `runtime/host_program.py`.

Beside the reference interpreter this is the only part of the runtime that looks at IR.
"""
