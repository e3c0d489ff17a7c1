"""A training step run on shape-only tensors: every storage's birth and death, without a GPU.

The step itself runs in `profiler.trace.child`, the only part that loads PyTorch; what is here asks for it and
reads its record.
"""
