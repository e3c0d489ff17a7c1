"""Every engine's profile."""

from typing import Final

from planner.runtimes.aphrodite import APHRODITE, PEGAINFER
from planner.runtimes.ik_llama_cpp import IK_LLAMA_CPP
from planner.runtimes.llama_cpp import LLAMA_CPP
from planner.runtimes.mlc_llm import MLC_LLM
from planner.runtimes.ollama import OLLAMA
from planner.runtimes.profile import Profile
from planner.runtimes.sglang import SGLANG, SGLANG_OMNI
from planner.runtimes.tensorrt_llm import TENSORRT_LLM
from planner.runtimes.tgi import TGI
from planner.runtimes.transformers import TRANSFORMERS
from planner.runtimes.vllm import VLLM

SERVING: Final[tuple[Profile, ...]] = (
    VLLM, SGLANG, SGLANG_OMNI, APHRODITE, PEGAINFER, TENSORRT_LLM, TGI, MLC_LLM,
    LLAMA_CPP, IK_LLAMA_CPP, OLLAMA, TRANSFORMERS,
)  # fmt: skip
