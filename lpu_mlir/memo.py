"""How much functions remember of what they computed: a process may compile any number of graphs."""

MEMO = 2048
"""So many results: more than the distinct types or expressions of a large model."""
