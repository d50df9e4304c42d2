"""From FX graphs of ATen operators to `lpu_graph`; `importer.py` is the entry."""
