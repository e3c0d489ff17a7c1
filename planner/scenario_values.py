"""What a value of the schema may be: ranges of numbers, forms of names, and the lists to choose from."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, PlainSerializer

Count = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
Degree = Annotated[int, Field(ge=1, le=65_536, strict=True)]
Tokens = Annotated[int, Field(ge=1, le=100_000_000, strict=True)]
NonNegative = Annotated[int, Field(ge=0, le=2**53, strict=True)]
SizeBytes = Annotated[int, Field(ge=1, le=2**60, strict=True)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0.001, le=10_000_000, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
FormatId = Annotated[str, Field(pattern=r"^[a-z0-9_.]{2,32}$")]
FrozenJson = Annotated[
    Mapping[str, JsonValue],
    AfterValidator(lambda value: MappingProxyType(dict(value))),
    PlainSerializer(dict),
]

Task = Literal["pretrain", "full", "lora", "qlora", "serve"]
RuntimeName = Literal[
    "hf_trainer", "torchtune", "torchtitan", "litgpt", "megatron_lm", "deepspeed", "unsloth", "generic",
    "vllm", "sglang", "llama_cpp", "ollama", "tensorrt_llm", "transformers",
    "ik_llama_cpp", "mlc_llm", "tgi", "aphrodite", "pegainfer", "sglang_omni",
]  # fmt: skip
Dtype = Literal["fp32", "bf16", "fp16", "fp8", "int8"]
OptimizerName = Literal[
    "adamw", "adamw_8bit", "adam", "sgd", "sgd_momentum", "adafactor", "lion", "lion_8bit", "muon", "galore",
]  # fmt: skip
AdapterBase = Literal["fp32", "bf16", "fp16", "nf4", "nf4_dq", "int8", "gptq4", "gptq8"]
AdapterMethod = Literal[
    "lora", "dora", "rslora", "ia3", "prefix", "prompt", "p_tuning", "adaption_prompt", "adaption_prompt_v2",
    "vera", "loha", "lokr", "adalora", "oft", "boft",
]  # fmt: skip
KernelName = Literal["rms_norm", "rope", "swiglu", "lora_attention", "lora_mlp", "softmax"]
KvFormat = Literal["bf16", "fp16", "fp32", "fp8", "q8_0", "q6_0", "q5_0", "q5_1", "q4_0", "q4_1", "iq4_nl"]
