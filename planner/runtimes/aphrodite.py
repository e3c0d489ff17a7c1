"""Aphrodite: a vLLM fork with vLLM's defaults."""

from planner.runtimes.profile import Profile
from planner.runtimes.vllm import VLLM

APHRODITE = Profile(name="aphrodite", kind="serving", defaults=VLLM.defaults, reference="vllm_engine_args")
PEGAINFER = Profile(name="pegainfer", kind="serving", defaults=VLLM.defaults, reference="vllm_engine_args")
