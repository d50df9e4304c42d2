"""The native interpreter: kernels as machine code."""
