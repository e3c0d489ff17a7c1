"""PyTorch's CUDA caching allocator as a simulation: what it would reserve, and when a card would run out."""
