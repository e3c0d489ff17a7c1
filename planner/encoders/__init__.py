"""Encoders and encoder-decoders in training: their operations one by one, and what autograd makes of them."""
