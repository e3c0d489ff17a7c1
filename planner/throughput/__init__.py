"""Training and serving speed: what a step or a token takes, part by part, and what binds it."""
