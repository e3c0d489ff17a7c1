"""Small models and settings on which a trace is held against a real step on the CPU. No PyTorch here."""

from typing import Any, Final

from tests.profiler.scenarios import GPT2, LLAMA

Case = tuple[dict[str, Any], dict[str, Any]]

QWEN3: Final = LLAMA | {"model_type": "qwen3", "num_hidden_layers": 2, "attention_bias": False}
GEMMA: Final = {
    "model_type": "gemma", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 160, "vocab_size": 1511,
    "max_position_embeddings": 256,
}  # fmt: skip
GEMMA2: Final = GEMMA | {"model_type": "gemma2", "num_key_value_heads": 2, "query_pre_attn_scalar": 32}
GEMMA3: Final = GEMMA | {
    "model_type": "gemma3_text", "num_key_value_heads": 2, "query_pre_attn_scalar": 32, "sliding_window": 16,
}  # fmt: skip
BERT: Final = {
    "model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 1201, "max_position_embeddings": 64, "type_vocab_size": 2,
}  # fmt: skip
MIXTRAL: Final = {
    "model_type": "mixtral", "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 24, "intermediate_size": 208, "vocab_size": 1013,
    "num_local_experts": 4, "num_experts_per_tok": 2, "tie_word_embeddings": False,
}  # fmt: skip
QWEN3_MOE: Final = {
    "model_type": "qwen3_moe", "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 24, "intermediate_size": 208, "moe_intermediate_size": 48,
    "vocab_size": 1013, "num_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": False,
}  # fmt: skip

BF16: Final = {"training.precision.parameters": "bf16", "training.precision.compute": "bf16"}
AUTOCAST: Final = {"training.precision.compute": "bf16", "training.precision.autocast": True}
SDPA: Final = {"training.attention": "sdpa"}
CHECKPOINTED: Final = {"training.checkpointing": "full"}
ACCUMULATED: Final = {"training.gradient_accumulation": 3}
FUSED: Final = {"training.optimizer.implementation": "fused"}
SINGLE: Final = {"training.optimizer.implementation": "single"}
KEPT: Final = {"runtime.name": "generic"}
LORA: Final = {"task": "lora", "adapter": {"rank": 4, "targets": "all_linear", "dropout": 0.05}}
QV: Final = {"task": "lora", "adapter": {"rank": 4, "targets": ["q_proj", "v_proj"]}}


def _sgd(name: str) -> dict[str, Any]:
    return {"training.optimizer.name": name}


FP16: Final = {"training.precision.parameters": "fp16", "training.precision.compute": "fp16"}
SCALED: Final = {"training.precision.compute": "fp16", "training.precision.autocast": True}
CHUNKED: Final = {"training.loss": "chunked"}
FUSED_LINEAR: Final = {"training.loss": "fused_linear"}
PACKED: Final = {"training.packing": "packed"}
PADDING_FREE: Final = {"training.packing": "padding_free"}
EVERY_TWO: Final = {"training.checkpointing": "every_k", "training.checkpoint_every": 2}
BY_ATTENTION: Final = {"training.checkpointing": "selective_attention"}
BY_OPERATOR: Final = {"training.checkpointing": "selective_op"}
REENTRANT: Final = CHECKPOINTED | {"training.checkpoint_reentrant": True}
MODELS: Final = "tests.profiler.trace.user_models"
BY_LOSS: Final = {"module": f"{MODELS}:by_loss"}
BY_INPUTS: Final = {"module": f"{MODELS}:by_inputs"}
NORMED: Final = {"module": f"{MODELS}:normed"}
T5: Final = {
    "model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_decoder_layers": 2,
    "num_heads": 4, "vocab_size": 1201, "feed_forward_proj": "relu", "decoder_start_token_id": 0,
    "pad_token_id": 0, "eos_token_id": 1, "is_encoder_decoder": True,
}  # fmt: skip

SHORT: Final[dict[str, Case]] = {
    "llama-eager-fp32": (LLAMA, {}),
    "llama-sdpa-bf16": (LLAMA, BF16 | SDPA),
    "llama-sdpa-bf16-checkpointed-accumulated": (LLAMA, BF16 | SDPA | CHECKPOINTED | ACCUMULATED),
    "llama-lora-bf16": (LLAMA, BF16 | SDPA | LORA),
    "qwen3-sdpa-bf16-fused": (QWEN3, BF16 | SDPA | FUSED),
    "gemma-sdpa-bf16-single": (GEMMA, BF16 | SDPA | SINGLE),
    "gpt2-eager-dropout": (GPT2, {"training.dropout": 0.1}),
    "gpt2-sdpa-bf16": (GPT2, BF16 | SDPA),
    "bert-sdpa": (BERT, SDPA),
    "mixtral-sdpa-bf16": (MIXTRAL, BF16 | SDPA),
    "qwen3-moe-fp32": (QWEN3_MOE, {}),
    "llama-kept-outputs": (LLAMA, KEPT | SDPA),
    "llama-autocast": (LLAMA, AUTOCAST | SDPA),
    "gpt2-autocast-kept": (GPT2, AUTOCAST | KEPT),
    "llama-fp16-scaled": (LLAMA, SCALED | SDPA),
    "llama-chunked-bf16": (LLAMA, BF16 | SDPA | CHUNKED),
    "llama-fused-linear-bf16": (LLAMA, BF16 | SDPA | FUSED_LINEAR),
    "llama-packed-sdpa": (LLAMA, BF16 | SDPA | PACKED),
    "llama-every-two": (LLAMA, BF16 | SDPA | EVERY_TWO),
    "llama-selective-op": (LLAMA, BF16 | SDPA | BY_OPERATOR),
    "llama-reentrant-lora": (LLAMA, BF16 | SDPA | QV | REENTRANT),
    "module-by-loss": (BY_LOSS, {}),
}
"""Run with every test."""

LONG: Final[dict[str, Case]] = {
    "llama-sdpa-fp32": (LLAMA, SDPA),
    "llama-eager-bf16": (LLAMA, BF16),
    "llama-eager-checkpointed": (LLAMA, CHECKPOINTED),
    "llama-fused": (LLAMA, FUSED),
    "llama-single": (LLAMA, SINGLE),
    "llama-accumulated": (LLAMA, ACCUMULATED),
    "llama-sgd": (LLAMA, _sgd("sgd")),
    "llama-momentum": (LLAMA, _sgd("sgd_momentum")),
    "llama-adam": (LLAMA, _sgd("adam")),
    "llama-adafactor": (LLAMA, _sgd("adafactor")),
    "llama-in-backward": (LLAMA, {"training.optimizer.in_backward": True}),
    "llama-lora-fp32": (LLAMA, QV),
    "llama-lora-checkpointed": (LLAMA, BF16 | SDPA | QV | CHECKPOINTED),
    "llama-lora-kept": (LLAMA, BF16 | QV | KEPT),
    "llama-tied": (LLAMA | {"tie_word_embeddings": True}, BF16 | SDPA),
    "llama-biases": (LLAMA | {"attention_bias": True, "mlp_bias": True}, BF16 | SDPA),
    "llama-one-row": (LLAMA, BF16 | SDPA | {"training.micro_batch": 1, "training.sequence_length": 200}),
    "qwen3-eager": (QWEN3, {}),
    "qwen3-checkpointed": (QWEN3, BF16 | SDPA | CHECKPOINTED),
    "qwen3-lora": (QWEN3, BF16 | SDPA | LORA),
    "gemma-eager": (GEMMA, {}),
    "gemma-checkpointed": (GEMMA, BF16 | CHECKPOINTED),
    "gemma-lora": (GEMMA, BF16 | SDPA | QV),
    "gemma2-eager-bf16": (GEMMA2, BF16),
    "gemma3-sdpa": (GEMMA3, BF16 | SDPA),
    "gpt2-sdpa-fp32": (GPT2, SDPA),
    "gpt2-checkpointed": (GPT2, CHECKPOINTED),
    "gpt2-fused-accumulated": (GPT2, FUSED | ACCUMULATED),
    "gpt2-single": (GPT2, BF16 | SINGLE),
    "gpt2-kept": (GPT2, KEPT | SDPA),
    "gpt2-lora": (GPT2, {"task": "lora", "adapter": {"rank": 4, "targets": ["c_attn"]}}),
    "bert-eager": (BERT, {}),
    "bert-bf16": (BERT, BF16 | SDPA),
    "bert-dropout": (BERT, {"training.dropout": 0.1}),
    "mixtral-eager": (MIXTRAL, {}),
    "mixtral-checkpointed": (MIXTRAL, BF16 | SDPA | CHECKPOINTED),
    "mixtral-lora": (MIXTRAL, BF16 | SDPA | QV),
    "qwen3-moe-sdpa-bf16": (QWEN3_MOE, BF16 | SDPA | FUSED),
    "llama-autocast-eager": (LLAMA, AUTOCAST),
    "llama-autocast-checkpointed": (LLAMA, AUTOCAST | SDPA | CHECKPOINTED),
    "llama-autocast-accumulated-fused": (LLAMA, AUTOCAST | SDPA | ACCUMULATED | FUSED),
    "llama-autocast-lora": (LLAMA, AUTOCAST | SDPA | LORA),
    "qwen3-autocast-single": (QWEN3, AUTOCAST | SDPA | SINGLE),
    "gemma-autocast": (GEMMA, AUTOCAST | SDPA),
    "gpt2-autocast-sdpa": (GPT2, AUTOCAST | SDPA),
    "gpt2-autocast-dropout": (GPT2, AUTOCAST | {"training.dropout": 0.1}),
    "bert-autocast": (BERT, AUTOCAST | SDPA),
    "mixtral-autocast": (MIXTRAL, AUTOCAST | SDPA),
    "qwen3-moe-checkpointed": (QWEN3_MOE, BF16 | SDPA | CHECKPOINTED),
    "llama-fp16": (LLAMA, FP16 | SDPA),
    "gpt2-fp16-scaled-fused": (GPT2, SCALED | FUSED | {"training.dropout": 0.1}),
    "llama-lora-fp16-scaled": (LLAMA, SCALED | SDPA | LORA),
    "llama-chunked": (LLAMA, CHUNKED),
    "llama-chunked-autocast": (LLAMA, AUTOCAST | SDPA | CHUNKED),
    "gpt2-chunked-bf16": (GPT2, BF16 | SDPA | CHUNKED),
    "llama-fused-linear": (LLAMA, FUSED_LINEAR),
    "llama-fused-linear-autocast": (LLAMA, AUTOCAST | SDPA | FUSED_LINEAR),
    "llama-fused-linear-lora": (LLAMA, BF16 | SDPA | LORA | FUSED_LINEAR | ACCUMULATED),
    "gemma-fused-linear-tied": (GEMMA | {"tie_word_embeddings": True}, BF16 | SDPA | FUSED_LINEAR),
    "llama-fused-linear-checkpointed": (LLAMA, BF16 | SDPA | FUSED_LINEAR | CHECKPOINTED),
    "llama-packed-eager": (LLAMA, PACKED),
    "qwen3-packed-autocast": (QWEN3, AUTOCAST | SDPA | PACKED),
    "gpt2-packed": (GPT2, BF16 | SDPA | PACKED),
    "llama-padding-free": (LLAMA, BF16 | SDPA | PADDING_FREE),
    "llama-packed-kept": (LLAMA, BF16 | SDPA | PACKED | KEPT),
    "llama-every-two-lora": (LLAMA, BF16 | SDPA | EVERY_TWO | QV),
    "gpt2-every-two": (GPT2, EVERY_TWO),
    "llama-selective-attention": (LLAMA, BY_ATTENTION),
    "llama-selective-attention-sdpa": (LLAMA, BF16 | SDPA | BY_ATTENTION),
    "gpt2-selective-attention-dropout": (GPT2, BY_ATTENTION | {"training.dropout": 0.1}),
    "bert-selective-attention": (BERT, BY_ATTENTION),
    "llama-selective-op-autocast": (LLAMA, AUTOCAST | SDPA | BY_OPERATOR),
    "llama-reentrant": (LLAMA, BF16 | SDPA | REENTRANT),
    "llama-reentrant-autocast": (LLAMA, AUTOCAST | SDPA | REENTRANT),
    "gpt2-reentrant": (GPT2, REENTRANT),
    "module-by-inputs-autocast": (BY_INPUTS, AUTOCAST | ACCUMULATED),
    "module-by-loss-scaled": (BY_LOSS, SCALED | FUSED),
    "module-normed-in-backward": (NORMED, {"training.optimizer.in_backward": True}),
    "t5-fp32": (T5, {}),
    "t5-bf16": (T5, BF16),
    "llama-lora-dropout-autocast": (LLAMA, AUTOCAST | SDPA | LORA | {"training.dropout": 0.1}),
    "llama-attention-dropout": (LLAMA, {"training.dropout": 0.1}),
    "llama-attention-dropout-sdpa": (LLAMA, BF16 | SDPA | {"training.dropout": 0.1}),
}
"""Run by `python run.py check`."""

ALL: Final = SHORT | LONG
