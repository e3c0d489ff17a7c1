"""Scratch of ik_llama.cpp's graphs for latent attention, and for experts that are copied in from the host.

Its modes 2 and 3 decompress the cached latent for a whole step of tokens before attention. `-amb` bounds the
32-bit result: heads are taken in turns, so many that a turn's share is within the bound.
"""

from typing import Final

from planner.memory.serving_demand import version_of
from planner.memory.serving_gguf import linear_type, mixture
from planner.model.spec import Attention, Layer, ModelSpec, Part
from planner.placement import Share
from planner.scenario import Scenario
from planner.units import MIB

DEVICE_VISITS: Final = 32
"""Tokens an expert must get in a step for its matrices to be copied to a device."""

INTERLEAVED_ON_CUDA: Final = {
    "iq2_k": 3713, "iq3_k": 3713, "iq4_k": 3713, "iq5_k": 3713, "iq4_ks": 3713, "iq5_ks": 3713,
    "iq1_s": 3723, "iq1_m": 3723,
}  # fmt: skip
"""Row-interleaved types (`_r4`) that ik_llama.cpp can multiply on CUDA, with the build from which (pull requests
461, 462, 492, 494 of 2025); others stay on the processor."""

ONE_TURN_FROM: Final = 4160
"""ik_llama.cpp's build of about pull request 1211 (31 January 2026; 4122 is of 18 January): attention of a turn is
computed before the next turn's keys and values. Earlier graphs made those of all turns first."""

TWO_COPIES_UNTIL: Final = 6200
"""llama.cpp builds up to about here held two copied matrices at once; tables of later ones show none beyond
the logits' moment."""


def experts_offloaded(scenario: Scenario, model: ModelSpec, step: int) -> bool:
    """Whether routed experts kept on the host are copied to a device for a step of `step` tokens.

    llama.cpp does so for steps of 32 tokens, ik_llama.cpp once each expert gets 32: step x experts of a token
    >= 32 x experts, and CUDA knows their type.
    """
    mlp = next((layer.mlp for layer in reversed(model.layers) if layer.mlp.num_experts), None)
    if mlp is None or not scenario.serving.host_experts:
        return False
    if scenario.runtime.name != "ik_llama_cpp":
        return step >= DEVICE_VISITS
    if not on_cuda(
        scenario.serving.expert_weights or scenario.serving.weights or "", version_of(scenario)[0]
    ):
        return False
    return step * mlp.experts_per_token >= DEVICE_VISITS * mlp.num_experts


def on_cuda(weights: str, build: int) -> bool:
    """Whether a build of ik_llama.cpp multiplies a type on CUDA: a row-interleaved one from some build on, or never."""
    stem, interleaved, _ = weights.rpartition("_r")
    return not interleaved or not weights[-1].isdigit() or build >= INTERLEAVED_ON_CUDA.get(stem, build + 1)


def host_works(scenario: Scenario, model: ModelSpec, step: int) -> bool:
    """Whether the host multiplies routed experts itself, which splits every layer's graph."""
    return bool(scenario.serving.host_experts) and not experts_offloaded(scenario, model, step)


def one_turn_held(scenario: Scenario) -> bool:
    """Whether a build is known to hold the keys and values of one turn only; where none is told, it may hold all."""
    return scenario.runtime.version is not None and version_of(scenario)[0] >= ONE_TURN_FROM


def head_turns(heads: int, whole_bytes: int, bound_mib: int | None, *, halved: bool = False) -> int:
    """Turns in which heads are decompressed: the fewest that divide them and keep a turn within `-amb`.

    Args:
        heads: Query heads.
        whole_bytes: The 32-bit result of all heads.
        bound_mib: `-amb`; none takes all heads at once.
        halved: Builds before `ONE_TURN_FROM`: heads of a turn are halved while they are even, so that 20 make
            four turns at most.
    """
    whole_mib = whole_bytes // MIB
    if not bound_mib or whole_mib <= bound_mib:
        return 1
    if halved:
        turns = 1
        while heads // turns % 2 == 0 and whole_mib // turns > bound_mib:
            turns *= 2
        return turns
    fits = (n for n in range(2, heads) if heads % n == 0 and whole_mib // n <= bound_mib)
    return next(fits, heads)


def query_rank(layers: tuple[Layer, ...]) -> int:
    """Width of the compressed query, 0 for models without one."""
    found = (linear.out_features for layer in layers for linear in layer.linears if linear.name == "q_a_proj")
    return next(found, 0)


def latent_moments(
    share: Share, scenario: Scenario, model: ModelSpec, latent: Attention, symbols: dict[str, int]
) -> list[str]:
    """The fullest moments of latent attention in modes 2 and 3; adds the symbols they use.

    All heads at once, experts on the host: 32-bit keys and values, both in 16 bit, the rotary key repeated
    for every head, query and rotated query, residual stream, compressed query, two masks. Heads in turns:
    keys and values of all heads in 16 bit beside one turn's 32-bit result, and the joined query. Where the
    host multiplies experts, masks, one turn's rotary keys and the latent in 16 bit stay beside them. Long contexts
    hold more in both masks, of 32 and 16 bit, than in queries. Later builds hold one turn's keys and values,
    before and after the cast, beside query, result and masks.
    """
    step, context = symbols["u"], symbols["n"]
    own = host_works(scenario, model, step)
    whole = context * latent.num_heads * (symbols["p"] + latent.v_head_dim) * 4
    later = one_turn_held(scenario)
    bound = scenario.serving.attention_max_batch_mib
    turns = head_turns(latent.num_heads, whole, bound, halved=not later)
    symbols |= {"R": latent.qk_rope_head_dim, "Q": query_rank(share.layers)}
    if later and turns > 1:
        symbols["t"] = turns
        return ["n*H*((p + v)*6 + R*2)/t + u*(H*(d + v) + E)*4 + u*n*6"]
    if turns > 1:
        symbols["t"] = turns
        turn = "n*H*(d + v)*2 + n*H*(p + v)*4/t"
        moment = f"{turn} + u*(H*(2*d + R) + E + Q)*4"
        if not own:
            return [moment, f"{turn} + u*(H*R + E + Q)*4 + u*n*6"]
        symbols["c"] = 1 if (scenario.serving.kv_cache or "fp16") == "fp16" else 2
        return [f"{moment} + u*n*6 + n*H*R*2/t + c*n*l*2"]
    if own:
        return ["n*H*(4*(p + v) + 2*(p + v + R)) + u*(H*(d + R) + E + Q)*4 + u*n*6"]
    return ["n*H*(d + v)*2 + n*H*(p + v)*4 + u*E*4"]


def scores_moment(layers: tuple[Layer, ...], symbols: dict[str, int], latent: Attention) -> str:
    """Without flash attention: scores of every head, the absorbed and the joined query, the transposed latent."""
    symbols |= {"R": latent.qk_rope_head_dim, "Q": query_rank(layers), "l": latent.kv_lora_rank}
    symbols |= {"d": latent.head_dim}
    return "u*(H*(n + 2*l + 2*R + d) + n + E + Q)*4 + n*l*2"


def copied_experts_moment(
    share: Share, scenario: Scenario, model: ModelSpec, symbols: dict[str, int]
) -> str | None:
    """Experts copied in from the host, to the first device: two matrices of a layer beside two results.

    ik_llama.cpp multiplies gate and up in one step; in llama.cpp the largest of the three is met twice. Also
    the residual stream, its norm and the shared expert's output; adds the symbols it uses.
    """
    fused = scenario.runtime.name == "ik_llama_cpp"
    if share.indices[0] or not (fused or version_of(scenario)[0] < TWO_COPIES_UNTIL):
        return None
    if not experts_offloaded(scenario, model, symbols["u"]):
        return None
    index, layer = next((i, la) for i, la in reversed(list(enumerate(model.layers))) if la.mlp.num_experts)
    mix = mixture(scenario.serving.expert_weights or scenario.serving.weights or "q4_k_m")
    if mix is None:
        return None
    met = [
        (linear, linear_type(linear, layer, index, model, mix))
        for linear in layer.linears
        if linear.part is Part.EXPERTS and not (fused and linear.out_features == model.hidden_size)
    ]
    sizes = [linear.weight_params * kind.bytes / kind.elements for linear, kind in met]
    symbols |= {"W": round(max(sizes, default=0.0)), "k": layer.mlp.experts_per_token}
    symbols |= {"f": layer.mlp.intermediate_size, "s": layer.mlp.shared_intermediate_size}
    return "2*W + u*(2*k*f + 3*E + s)*4"
