"""Memory of one training step on one device, entry by entry.

Start at `ledgers`, which adds everything up. `setup` says what the formulas need to know of the question, `step` what
they are about: the device's part of the job, its tensors, its layers.

- Between steps: `weights`, `gradients`, `optimizer_states`; the optimizer's own step: `optimizer_step`.
- Forward: `saved` (what layers and checkpoints keep), `once` (what all layers share), `kept_outputs`.
- Loss: `head`, `loss`, `fused_linear_loss`, `litgpt`.
- Backward: `backward` lists its moments, `inside_layer` and the modules named `backward_` what is there at each.
- Ways to divide a job: `gather` and `fsdp1_flat`, `fsdp2` and `fsdp2_units`, `zero`, `dtensor`, `data_parallel`,
  `zero_bubble`.
- Around the model: `overheads`, `allocator_cache`, `alignment`, `fake_quantization`.
"""
