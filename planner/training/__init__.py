"""Memory of one training step: its tensors between steps, forward, loss, backward and what is around them."""
