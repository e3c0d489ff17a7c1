"""The child process that traces: builds the real model on shape-only tensors and runs the real loop."""
