"""The child process: builds the real model, runs real steps, measures them. Only here is PyTorch loaded."""
