"""Number formats as safetensors and GGUF headers name them."""

from typing import Final

SAFETENSORS: Final[dict[str, tuple[str, int]]] = {
    "F64": ("fp64", 64), "F32": ("fp32", 32), "F16": ("fp16", 16), "BF16": ("bf16", 16),
    "F8_E4M3": ("fp8", 8), "F8_E5M2": ("fp8_e5m2", 8), "F8_E4M3FNUZ": ("fp8_e4m3fnuz", 8),
    "F8_E5M2FNUZ": ("fp8_e5m2fnuz", 8), "F8_E8M0": ("e8m0", 8), "F6_E2M3": ("fp6_e2m3", 6),
    "F6_E3M2": ("fp6_e3m2", 6), "F4": ("fp4", 4), "I64": ("int64", 64), "U64": ("uint64", 64),
    "I32": ("int32", 32), "U32": ("uint32", 32), "I16": ("int16", 16), "U16": ("uint16", 16),
    "I8": ("int8", 8), "U8": ("uint8", 8), "BOOL": ("bool", 8), "C64": ("complex64", 64),
}  # fmt: skip
"""Name -> id and bits of an element (safetensors 0.8, `Dtype`)."""

GGML: Final[dict[int, tuple[str, int, int]]] = {
    0: ("fp32", 1, 4), 1: ("fp16", 1, 2), 2: ("q4_0", 32, 18), 3: ("q4_1", 32, 20), 6: ("q5_0", 32, 22),
    7: ("q5_1", 32, 24), 8: ("q8_0", 32, 34), 9: ("q8_1", 32, 36), 10: ("q2_k", 256, 84),
    11: ("q3_k", 256, 110), 12: ("q4_k", 256, 144), 13: ("q5_k", 256, 176), 14: ("q6_k", 256, 210),
    15: ("q8_k", 256, 292), 16: ("iq2_xxs", 256, 66), 17: ("iq2_xs", 256, 74), 18: ("iq3_xxs", 256, 98),
    19: ("iq1_s", 256, 50), 20: ("iq4_nl", 32, 18), 21: ("iq3_s", 256, 110), 22: ("iq2_s", 256, 82),
    23: ("iq4_xs", 256, 136), 24: ("int8", 1, 1), 25: ("int16", 1, 2), 26: ("int32", 1, 4),
    27: ("int64", 1, 8), 28: ("fp64", 1, 8), 29: ("iq1_m", 256, 56), 30: ("bf16", 1, 2),
    34: ("tq1_0", 256, 54), 35: ("tq2_0", 256, 66), 39: ("mxfp4_gguf", 32, 17), 40: ("nvfp4_gguf", 64, 36),
    41: ("q1_0", 128, 18),
}  # fmt: skip
"""Number of a ggml type -> id, elements and bytes of a block (`ggml.h`, `ggml-common.h`; gguf 0.19)."""

FILE_TYPES: Final[dict[int, str]] = {
    0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k", 11: "q3_k_s",
    12: "q3_k_m", 13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k",
    19: "iq2_xxs", 20: "iq2_xs", 21: "q2_k_s", 22: "iq3_xs", 23: "iq3_xxs", 24: "iq1_s", 25: "iq4_nl",
    26: "iq3_s", 27: "iq3_m", 28: "iq2_s", 29: "iq2_m", 30: "iq4_xs", 31: "iq1_m", 32: "bf16",
    36: "tq1_0", 37: "tq2_0", 38: "mxfp4",
}  # fmt: skip
"""`general.file_type` -> id of the mixture (`llama_ftype`; gguf 0.19)."""
