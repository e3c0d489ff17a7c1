"""Tensor parallelism by DTensor: matrices cut over ranks as the model's own class plans it.

Transformers' classes name how each matrix is cut (`base_model_tp_plan`). Embedding and head are cut along the
vocabulary as well, which that plan leaves to others.
"""

from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from profiler.trace.documents import Part
from profiler.worker.workloads import cannot_build

IGNORED: Final = frozenset({"replicated_with_grad_allreduce", "replicate"})
ATTENTION: Final = ".self_attn."
SEQUENCE: Final = 1
"""Dimension of the positions in the residual stream."""


def cut(model: Any, mesh: Any, part: Part) -> None:
    """Cut the model's matrices.

    Args:
        model: The model; its matrices become this rank's.
        mesh: One dimension.
        part: Whether the sequence is cut between blocks, and the logits.

    Raises:
        CannotBuildError: The class plans nothing, plans what DTensor has no style for, or heads do not divide.
    """
    _check_heads(model.config.get_text_config(), part)
    styles = {**dict(_planned(model, part)), **_around(model, part)}
    parallelize_module(model, mesh, styles, src_data_rank=None)
    for name, module in model.named_modules():
        own = list(module.parameters(recurse=False))
        if own and not any(isinstance(one, DTensor) for one in own):
            along = part.sequence and ATTENTION not in name
            style = SequenceParallel() if along else _Whole()
            style._apply(module, mesh)  # noqa: SLF001  # what `parallelize_module` calls
    if model.config.get_text_config().tie_word_embeddings:
        model.tie_weights()


class _Whole(ParallelStyle):  # type: ignore[misc]  # torch is not followed by the type checker
    """Parameters that every rank has whole, as DTensors: optimizers take one sort of tensors or the other."""

    def _apply(self, module: Any, device_mesh: Any) -> Any:
        return distribute_module(module, device_mesh, None, self._inputs, self._outputs)

    @staticmethod
    def _inputs(_: Any, inputs: tuple[Any, ...], mesh: Any) -> Any:
        return tuple(
            DTensor.from_local(one, mesh, [Replicate()], run_check=False)
            if isinstance(one, torch.Tensor) and not isinstance(one, DTensor)
            else one
            for one in inputs
        )

    @staticmethod
    def _outputs(_: Any, outputs: Any, __: Any) -> Any:
        return outputs.to_local() if isinstance(outputs, DTensor) else outputs


def _check_heads(config: Any, part: Part) -> None:
    for name in ("num_attention_heads", "num_key_value_heads"):
        heads = getattr(config, name, None)
        if heads is not None and heads % part.tensor:
            raise cannot_build("heads_do_not_divide", "parallel.tensor", f"{part.tensor} ({name} {heads})")


def _planned(model: Any, part: Part) -> Iterator[tuple[str, Any]]:
    """The class's own plan in DTensor's styles."""
    plan = getattr(model.config.get_text_config(), "base_model_tp_plan", None)
    if not plan:
        raise cannot_build("no_tensor_plan", "parallel.tensor", model.config.model_type)
    for path, style in plan.items():
        if style in IGNORED:
            continue
        if style == "colwise":
            yield f"{model.base_model_prefix}.{path}", ColwiseParallel()
        elif style == "rowwise":
            kept: dict[str, Any] = {"output_layouts": Shard(SEQUENCE), "use_local_output": False}
            yield f"{model.base_model_prefix}.{path}", RowwiseParallel(**(kept if part.sequence else {}))
        else:
            raise cannot_build("no_tensor_plan", "parallel.tensor", f"{path}: {style}")


def _around(model: Any, part: Part) -> dict[str, Any]:
    """Embedding, head, and, where the sequence is cut, the entries of attention and feed-forward."""
    prefix = model.base_model_prefix
    stream: Any = Shard(SEQUENCE) if part.sequence else Replicate()
    names = {id(module): name for name, module in model.named_modules()}
    embedding, head = names[id(model.get_input_embeddings())], names[id(model.get_output_embeddings())]
    styles: dict[str, Any] = {
        embedding: RowwiseParallel(
            input_layouts=Replicate(), output_layouts=stream, use_local_output=not part.sequence
        ),
        head: ColwiseParallel(
            input_layouts=stream,
            output_layouts=Shard(-1) if part.loss else Replicate(),
            use_local_output=not part.loss,
        ),
    }
    if part.sequence:
        whole = {"hidden_states": Replicate()}
        styles |= {
            f"{prefix}.layers.*.self_attn": PrepareModuleInput(
                input_kwarg_layouts={"hidden_states": stream},
                desired_input_kwarg_layouts=whole,
                use_local_output=True,
            ),
            f"{prefix}.layers.*.mlp": PrepareModuleInput(
                input_layouts=(stream,), desired_input_layouts=(Replicate(),), use_local_output=True
            ),
        }
    return styles
