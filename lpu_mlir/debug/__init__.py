"""Finding faults: graphs run beside eager PyTorch, the first difference, the smallest graph."""
