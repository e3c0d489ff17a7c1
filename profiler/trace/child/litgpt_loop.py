"""LitGPT's finetuning loop on its own decoder, in place of a transformers model and the common loop.

The loop's names for logits and loss are bound anew only after the next forward call and the next loss: until then
the last step's logits and its whole graph stay, with everything that hangs on the graph's nodes themselves.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final

import torch
from torch import nn

from planner.scenario import Scenario
from profiler.trace.child.litgpt_model import (
    HEAD_CHUNK,
    Adapters,
    Decoder,
    StableEmbedding,
    chunked_loss,
)
from profiler.trace.child.quantized import FourBitLinear, quantize
from profiler.trace.litgpt_rules import Habits, habits_of, places_of, shape_of
from profiler.trace.quantized_rules import four_bit
from profiler.worker.steps import OnPhase
from profiler.worker.storages import INPUT
from profiler.worker.tracker import Tracker, adopt_all
from profiler.worker.workloads import DTYPES, Workload, cannot_build, make_optimizers

BITSANDBYTES: Final = (0, 42, 0)
"""What LitGPT asks for in 2024 (`Requires-Dist: bitsandbytes==0.42.0`); 0.41 keeps the same."""

SMALL: Final = 100_000
"""Elements below which a paged optimizer keeps its states on the device (`Optimizer8bit.get_state_buffer`)."""

MICRO_BATCHES: Final = 2
"""Of a step, at most: the second finds gradients and the first one's graph, and those after it are like it."""


class PagedAdamW(torch.optim.Optimizer):  # type: ignore[misc]  # torch is not followed by the type checker
    """bitsandbytes' paged AdamW: fp32 states in managed memory outside the allocator, those of small tensors in it."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> None:
        """Make the states; one kernel updates in place."""
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if parameter.grad is not None and not state and parameter.numel() < SMALL:
                    for name in ("exp_avg", "exp_avg_sq"):
                        state[name] = torch.zeros_like(parameter, dtype=torch.float32)


def build(scenario: Scenario, config: Mapping[str, Any], device: Any) -> Workload:
    """Model, adapters and optimizer as LitGPT's scripts make them.

    Raises:
        CannotBuildError: A model that LitGPT's decoder does not cover.
    """
    try:
        shape = shape_of(config)
    except ValueError as error:
        raise cannot_build("model_not_built", "model", config.get("model_type"), error) from error
    training, adapter = scenario.training, scenario.adapter
    habits = habits_of(scenario)
    adapts = scenario.task in {"lora", "qlora"} and adapter is not None
    dtype = DTYPES[training.precision.parameters or "bf16"]
    chunk = HEAD_CHUNK if adapts else None
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = Decoder(shape, _adapters(scenario, habits), training.sequence_length, chunk)
            if adapts:
                _freeze(model)
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            if scenario.task == "qlora" and adapter is not None:
                # Lightning turns weights into fp16 before they are packed (`_Linear4bit.quantize`)
                rules = four_bit(adapter.base or "nf4", BITSANDBYTES, weights="float16", compute=None)
                quantize(model, partial(FourBitLinear, rules=rules), lambda _: True)
                if habits.stable_embedding:
                    model.embedding = StableEmbedding(shape.vocab, shape.hidden)
    finally:
        torch.set_default_dtype(before)
    optimizer = (
        PagedAdamW(trained) if training.optimizer.paged else make_optimizers(model, training.optimizer)[0]
    )

    def make_batch() -> dict[str, Any]:
        size = (training.micro_batch, training.sequence_length)
        tokens = torch.randint(0, shape.vocab, size, device=device)
        return {"input_ids": tokens, "labels": tokens.clone()}

    return Workload(
        model=model.train(),
        optimizer=optimizer,
        in_backward=(),
        make_batch=make_batch,
        autocast=nullcontext,
        accumulation=min(training.gradient_accumulation, MICRO_BATCHES),
        keeps_outputs=not habits.first_batch_longest,
        fp32_outputs=False,
        clips=False,
        vocab_size=shape.vocab,
    )


def _adapters(scenario: Scenario, habits: Habits) -> Adapters | None:
    adapter = scenario.adapter
    if adapter is None or scenario.task not in {"lora", "qlora"}:
        return None
    rank, places = adapter.rank or 8, places_of(adapter)
    return Adapters(
        rank=rank,
        dropout=adapter.dropout or 0.0,
        scale=(adapter.alpha or 16) / rank,
        heads=places.heads,
        out=places.out,
        mlp=places.mlp,
        head=places.head,
        pads_out_of_place=habits.pads_out_of_place,
    )


def _freeze(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.rsplit(".", 1)[-1] in {"down", "up"}


class LitgptLoop:
    """The loop of `litgpt/finetune/*.py`, with phases told apart.

    Args:
        workload: What to run.
        on_phase: Called at the start of every phase, and with `rest` at the end of a step.
        tracker: Told what the batch is for.
    """

    def __init__(self, workload: Workload, on_phase: OnPhase, tracker: Tracker | None = None) -> None:
        self._workload = workload
        self._on_phase = on_phase
        self._tracker = tracker
        self._logits: Any = None
        self._loss: Any = None

    @contextmanager
    def marking(self) -> Iterator[None]:
        """Nothing to wrap: the loss is the loop's own."""
        yield

    def step(self) -> None:
        """One whole step."""
        work = self._workload
        for _ in range(work.accumulation):
            self._micro_batch()
            if not work.keeps_outputs:
                self._logits = self._loss = None
        self._on_phase("optimizer_step")
        work.optimizer.step()
        work.optimizer.zero_grad(set_to_none=True)
        self._on_phase("rest")

    def _micro_batch(self) -> None:
        work = self._workload
        self._on_phase("forward")
        batch = work.make_batch()
        if self._tracker is not None:
            adopt_all(self._tracker, batch.values(), INPUT)
        self._logits = logits = _converted(work.model, batch["input_ids"])
        self._on_phase("loss")
        logits[-1] = logits[-1][..., :-1, :]
        self._loss = chunked_loss(logits, batch["labels"][..., 1:], whole=work.model.chunk is None)
        logits[-1].register_hook(lambda _: self._on_phase("backward"))
        (self._loss / work.accumulation).backward()


def _converted(model: Any, tokens: Any) -> Any:
    """The logits in fp32: Fabric turns a module's outputs into the default format.

    `_FabricModule.forward` calls `HalfPrecision.convert_output` (bf16-true) or `BitsandbytesPrecision`'s, both when
    the whole list is there.
    """
    logits = model(tokens)
    return [piece.to(torch.float32) for piece in logits]
