"""Diffusion pipelines: what their denoisers keep of a step, their other components, and a picture being made."""
