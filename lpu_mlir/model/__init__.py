"""The machine that is modelled: see `target`."""
