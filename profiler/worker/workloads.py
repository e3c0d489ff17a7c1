"""Builds what a scenario describes: the Hugging Face class with random weights, adapters, optimizer, batches.

Nothing is downloaded and no code that comes with a model is run: classes are transformers' own.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch._guards import detect_fake_mode
from transformers import AutoConfig
from transformers.optimization import Adafactor as TrainerAdafactor

from planner.model import model_from_config
from planner.model.spec import Structure
from planner.model.task_heads import CLASSIFIER
from planner.scenario import Adapter, Optimizer, Scenario, Training
from profiler.documents import DeviceKind, Remark
from profiler.worker.auto_classes import (
    HEADS,
    auto_class,
    own_batch,
    structure_of,
    trains_head,
    with_one_embedding,
)
from profiler.worker.checkpoints import checkpoint_layers
from profiler.worker.losses import replace_loss, why_not_replaceable
from profiler.worker.packing import is_packed, lengths, positions
from profiler.worker.pictures import PICTURES, freeze_pictures, picture_batch

DTYPES: Final = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LEARNING_RATE: Final = 1e-5
CLIP_NORM: Final = 1.0
"""`TrainingArguments.max_grad_norm`."""

DROPOUT_FIELDS: Final = (
    *("attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout", "hidden_dropout", "embd_dropout"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout_rate", "resid_dropout", "dropout"),
)
NOT_FOR_THE_CLASS: Final = frozenset(
    {"model_type", "auto_map", "quantization_config", "architectures", "dtype", "torch_dtype", "use_cache"}
)
BETAS: Final = (0.9, 0.999)
TRAINER_LOOPS: Final = frozenset({"hf_trainer"})
TRAINER_ADAFACTOR: Final = {"scale_parameter": False, "relative_step": False}
"""As `transformers.Trainer` makes its own Adafactor (`get_optimizer_cls_and_kwargs`)."""


class CannotBuildError(ValueError):
    """The scenario names something that these libraries have no class for.

    Attributes:
        remark: The field at fault.
    """

    def __init__(self, remark: Remark) -> None:
        super().__init__(f"{remark.field}: {remark.code} {remark.params}")
        self.remark = remark


def cannot_build(code: str, field: str, given: object, error: Exception | None = None) -> CannotBuildError:
    """The error for a field that these libraries cannot follow."""
    return CannotBuildError(
        Remark(code=code, field=field, params={"given": str(given)[:100], "detail": str(error or "")[:300]})
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Everything a step needs.

    Attributes:
        model: The model, in training mode, on its device.
        optimizer: The optimizer; its `step` does nothing where parameters are stepped in the backward pass.
        in_backward: The optimizers of single parameters, where they are stepped in the backward pass.
        make_batch: Makes the arguments of one forward call.
        autocast: Context the forward call runs in.
        accumulation: Micro-batches of a step.
        keeps_outputs: The loop holds the model's outputs until the next call replaces them.
        fp32_outputs: Outputs are turned into fp32 after the call (accelerate under autocast).
        clips: Gradients are clipped by norm.
        vocab_size: Width of the logits.
        scaler: Scales the loss of fp16 autocast, None where none is needed.
    """

    model: Any
    optimizer: Any
    in_backward: tuple[Any, ...]
    make_batch: Callable[[], dict[str, Any]]
    autocast: Callable[[], AbstractContextManager[Any]]
    accumulation: int
    keeps_outputs: bool
    fp32_outputs: bool
    clips: bool
    vocab_size: int
    scaler: Any = None

    def optimizers(self) -> Iterator[Any]:
        """All optimizers that hold states."""
        yield from self.in_backward or (self.optimizer,)


def build(scenario: Scenario, config: Mapping[str, Any], device: DeviceKind) -> Workload:
    """Build the model, its adapters and its optimizer.

    Raises:
        CannotBuildError: No class for this model, or settings its class refuses.
    """
    training = scenario.training
    model = build_model(scenario, config, device)
    vocab = int(getattr(model.config.get_text_config(), "vocab_size", None) or 0)
    inner = model
    if scenario.task == "lora":
        adapter, head = scenario.adapter or Adapter(), trains_head(config, scenario.task)
        causal = structure_of(config) is Structure.DECODER
        model = add_adapter(model, adapter, but_pictures=bool(training.images), causal=causal, head=head)
    elif training.tower == "frozen":
        freeze_pictures(model)
    _set_loss(inner, scenario, config)
    _set_checkpoints(model, scenario, config)
    model.train()
    if scenario.runtime.compile:
        model.compile()
    trainer = scenario.runtime.name == "hf_trainer"
    optimizer, in_backward = make_optimizers(model, training.optimizer, scenario.runtime.name)
    return Workload(
        model=model,
        optimizer=optimizer,
        in_backward=in_backward,
        make_batch=batch_maker(scenario, config, device, vocab),
        autocast=autocast_maker(scenario, device),
        accumulation=training.gradient_accumulation,
        keeps_outputs=scenario.runtime.name == "generic",
        fp32_outputs=trainer and bool(training.precision.autocast),
        clips=trainer,
        vocab_size=vocab,
        scaler=scaler_for(scenario, device),
    )


def scaler_for(scenario: Scenario, device: DeviceKind) -> Any:
    """What fp16 autocast needs to keep small gradients; it starts with one, so that no step is left out."""
    precision = scenario.training.precision
    scales = bool(precision.autocast) and precision.compute == "fp16"
    return torch.amp.GradScaler(device, init_scale=1.0) if scales else None


def _set_checkpoints(model: Any, scenario: Scenario, config: Mapping[str, Any]) -> None:
    kind = scenario.training.checkpointing
    if kind in (None, "none"):
        return
    if kind == "every_k" and structure_of(config) is Structure.ENCODER_DECODER:
        raise cannot_build("checkpointing_not_measured", "training.checkpointing", kind)
    try:
        checkpoint_layers(model, scenario.training)
    except ValueError as error:
        raise cannot_build("checkpointing_not_measured", "training.checkpointing", kind, error) from error


def _set_loss(model: Any, scenario: Scenario, config: Mapping[str, Any]) -> None:
    kind = scenario.training.loss
    if kind in (None, "standard"):
        return
    causal = structure_of(config) is Structure.DECODER
    reason = why_not_replaceable(model) if causal else "only causal models shift their labels"
    if reason:
        raise cannot_build("loss_not_measured", "training.loss", kind, ValueError(reason))
    replace_loss(model, str(kind))


def stored_dtype(scenario: Scenario) -> Any:
    """The number format of the weights: a frozen base's own, else the parameters'."""
    adapter = scenario.adapter
    base = adapter.base if adapter is not None and scenario.task == "lora" else None
    return DTYPES[base or scenario.training.precision.parameters or "bf16"]


def build_model(scenario: Scenario, config: Mapping[str, Any], device: DeviceKind) -> Any:
    """The real class with random weights, on its device.

    Raises:
        CannotBuildError: No class for this model, or settings its class refuses.
    """
    attention = {"flash": "sdpa"}.get(
        scenario.training.attention or "sdpa", scenario.training.attention or "sdpa"
    )
    try:
        made = make_config(config, scenario)
        with torch.device(device):
            model = auto_class(config, scenario.task).from_config(
                made, dtype=stored_dtype(scenario), attn_implementation=attention, trust_remote_code=False
            )
            return with_one_embedding(model)
    except (ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
        raise cannot_build("model_not_built", "model", config.get("model_type"), error) from error


def make_config(config: Mapping[str, Any], scenario: Scenario) -> Any:
    """The configuration object: the given keys, and the scenario's dropout wherever the class has one."""
    keys = {key: value for key, value in config.items() if key not in NOT_FOR_THE_CLASS}
    kind = str(config["model_type"])
    made = AutoConfig.for_model(kind, **keys)
    if config.get("tie_word_embeddings") is False:
        made.tie_word_embeddings = (
            False  # `T5Config` says otherwise; a checkpoint with its own head unties it
        )
    dropout = scenario.training.dropout
    for name in DROPOUT_FIELDS if dropout is not None else ():
        if isinstance(getattr(made, name, None), int | float):
            setattr(made, name, dropout)
    if getattr(made, "is_encoder_decoder", False) and getattr(made, "decoder_start_token_id", None) is None:
        made.decoder_start_token_id = 0  # which token it is changes no tensor
    made.use_cache = scenario.runtime.name != "hf_trainer" and not is_packed(scenario.training)
    if scenario.training.images:
        made.get_text_config().use_cache = made.use_cache
    return made


def add_adapter(
    model: Any, adapter: Adapter, *, but_pictures: bool = False, causal: bool = True, head: bool = False
) -> Any:
    """The model with its base frozen and adapters in place.

    Args:
        model: The model.
        adapter: The scenario's block.
        but_pictures: No adapters where pictures pass through.
        causal: The model is a causal one.
        head: The model has a classifier, which is trained whole.

    Raises:
        CannotBuildError: PEFT refuses the settings.
    """
    from peft import IA3Config, LoraConfig, get_peft_model  # noqa: PLC0415  # seconds, and few jobs need it

    targets = "all-linear" if adapter.targets == "all_linear" else adapter.targets and list(adapter.targets)
    saved = [*adapter.modules_to_save, *((CLASSIFIER,) if head else ())] or None
    task = "CAUSAL_LM" if causal else None
    excluded = PICTURES if but_pictures else None if causal else list(HEADS)
    if adapter.method == "ia3":
        chosen: Any = IA3Config(target_modules=targets, modules_to_save=saved, task_type=task)
    else:
        chosen = LoraConfig(
            r=adapter.rank or 8,
            lora_alpha=adapter.alpha or 8,
            lora_dropout=adapter.dropout or 0.0,
            target_modules=targets,
            exclude_modules=excluded,
            modules_to_save=saved,
            use_rslora=adapter.method == "rslora",
            use_dora=adapter.method == "dora",
            task_type=task,
        )
    try:
        return get_peft_model(model, chosen, autocast_adapter_dtype=adapter.dtype in (None, "fp32"))
    except ValueError as error:
        raise cannot_build("adapter_not_built", "adapter", adapter.targets, error) from error


def make_optimizers(model: Any, settings: Optimizer, runtime: str = "") -> tuple[Any, tuple[Any, ...]]:
    """The optimizer, and the single parameters' own ones where they step in the backward pass."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not settings.in_backward:
        if settings.name == "adafactor" and runtime in TRAINER_LOOPS:
            return TrainerAdafactor(parameters, lr=LEARNING_RATE, **TRAINER_ADAFACTOR), ()
        return make_optimizer(parameters, settings), ()
    own = tuple(make_optimizer([parameter], settings) for parameter in parameters)
    for parameter, optimizer in zip(parameters, own, strict=True):
        parameter.register_post_accumulate_grad_hook(_stepping(optimizer))
    return torch.optim.SGD([torch.zeros(1)], lr=LEARNING_RATE), own


def _stepping(optimizer: Any) -> Callable[[Any], None]:
    def step(_: Any) -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def make_optimizer(parameters: list[Any], settings: Optimizer) -> Any:
    """PyTorch's own optimizer of that name and implementation."""
    kind = settings.implementation or "foreach"
    flags: dict[str, Any] = {"foreach": kind == "foreach"}
    if settings.name in {"adamw", "adam", "sgd", "sgd_momentum"}:
        flags["fused"] = kind == "fused"
    match settings.name:
        case "adamw":
            return torch.optim.AdamW(parameters, lr=LEARNING_RATE, betas=BETAS, **flags)
        case "adam":
            return torch.optim.Adam(parameters, lr=LEARNING_RATE, betas=BETAS, **flags)
        case "sgd":
            return torch.optim.SGD(parameters, lr=LEARNING_RATE, **flags)
        case "sgd_momentum":
            return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=0.9, **flags)
        case "adafactor":
            return torch.optim.Adafactor(parameters, lr=LEARNING_RATE, **flags)
    raise cannot_build("optimizer_not_measured", "training.optimizer.name", settings.name)


def autocast_maker(scenario: Scenario, device: DeviceKind) -> Callable[[], AbstractContextManager[Any]]:
    """The context that the forward call runs in."""
    precision = scenario.training.precision
    if not precision.autocast:
        return nullcontext
    dtype = DTYPES[precision.compute or "bf16"]
    return lambda: torch.autocast(device, dtype=dtype)


def batch_maker(
    scenario: Scenario, config: Mapping[str, Any], device: DeviceKind, vocab: int
) -> Callable[[], dict[str, Any]]:
    """Random tokens, with labels; encoder-decoders get both sides."""
    training = scenario.training
    rows, length = training.micro_batch, training.sequence_length
    structure = structure_of(config)
    packed = training.packing not in (None, "none")
    if not packed and (own := own_batch(scenario, config, device, vocab)) is not None:
        return own
    if training.images:
        return _picture_maker(training, config, device, vocab)
    if packed:
        return _packed_maker(training, structure, device, vocab)
    target = training.decoder_sequence_length or length if structure is Structure.ENCODER_DECODER else length

    def make() -> dict[str, Any]:
        tokens = torch.randint(0, vocab, (rows, length), device=device)
        labels = (
            tokens.clone() if target == length else torch.randint(0, vocab, (rows, target), device=device)
        )
        return {"input_ids": tokens, "labels": labels}

    return make


def _picture_maker(
    training: Training, config: Mapping[str, Any], device: DeviceKind, vocab: int
) -> Callable[[], dict[str, Any]]:
    """Random tokens and pictures."""
    tower = model_from_config(config).tower
    if tower is None:
        raise cannot_build("images_not_measured", "training.images", training.images)
    by_shape = str(device) == "meta" or detect_fake_mode() is not None
    return lambda: picture_batch(tower, training, config, device, vocab, by_shape=by_shape)


def _packed_maker(
    training: Training, structure: Structure, device: DeviceKind, vocab: int
) -> Callable[[], dict[str, Any]]:
    """Random tokens of several documents a row."""
    if structure is not Structure.DECODER:
        raise cannot_build("packing_not_measured", "training.packing", training.packing)
    rows, length, _ = lengths(training)

    def make() -> dict[str, Any]:
        tokens = torch.randint(0, vocab, (rows, length), device=device)
        return {"input_ids": tokens, "labels": tokens.clone(), "position_ids": positions(training, device)}

    return make
