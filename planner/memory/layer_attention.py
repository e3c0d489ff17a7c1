"""What a layer's attention keeps, by the kernel that computes it."""

from typing import Final

from planner.memory import activations as act
from planner.memory.kv_cache import STATEFUL
from planner.memory.layer_adapters import copies_output, kept_inputs
from planner.memory.layer_view import RUNS_TRANSFORMERS, View
from planner.memory.terms import Terms, add
from planner.model.spec import AttentionKind, ModelSpec, Part
from planner.training.setup import Setup
from planner.training.titan import GROUPS_SINCE, NAME

MISTRAL_LIKE: Final = frozenset({"mistral", "mixtral", "qwen2", "qwen2_moe", "starcoder2"})
WIDE_SCORES: Final = frozenset({"gptj", "codegen", "gpt_neo"})
"""Classes whose eager attention multiplies queries and keys in fp32."""
PLAIN_SOFTMAX: Final = frozenset({
    *("albert", "bart", "bert", "biogpt", "blenderbot", "camembert", "deberta", "distilbert", "electra", "ernie"),
    *("gpt2", "gpt_neo", "llama4", "llama4_text", "marian", "mbart", "mobilebert", "pegasus", "plbart"),
    *("roberta", "xglm", "xlm-roberta", "xlm_roberta", "xlm-roberta-xl"),
})  # fmt: skip
"""Classes whose eager attention leaves the softmax in its input's format; all others ask for fp32."""
FLASH_REPEATS_BEFORE: Final = (4, 48)


def multiplies_in_fp32(view: View) -> bool:
    """Whether queries and keys are widened for their product, which is then in fp32 (`GPTJAttention._attn`)."""
    setup = view.setup
    wide = view.model.model_type in WIDE_SCORES and setup.runtime in RUNS_TRANSFORMERS
    return wide and view.makes_scores and setup.compute_bytes < 4 and not setup.autocast


def caps_scores(model: ModelSpec) -> bool:
    """Whether scores pass a tanh, whose output is kept: Gemma 2's class, whose `attn_logit_softcapping` is on."""
    return model.model_type == "gemma2"


def upcasts_softmax(model: ModelSpec, setup: Setup) -> bool:
    """Whether eager attention makes an fp32 softmax of 16-bit scores; autocast always does."""
    return setup.compute_bytes == 4 or setup.autocast or model.model_type not in PLAIN_SOFTMAX


def attention(view: View, *, eager: bool) -> list[Terms]:
    """What the attention keeps: inputs of its matrices, the core, and views that hold on to a fused product."""
    e, shape, model = view.setup.compute_bytes, view.layer.attention, view.model
    reads, outs = view.linears(Part.ATTENTION)
    sites, out_sites = view.adapted(Part.ATTENTION)
    first = [x for x in reads if x.in_features == model.hidden_size]
    fuses = view.fuses_qkv
    if fuses:
        first = first[:1]
    parts = [kept_inputs(view, "h", first, sites, view.norm_output_bytes), attention_core(view, eager=eager)]
    if view.setup.adapter is not None or eager or copies_output(view):
        parts.append(kept_inputs(view, "o", outs, out_sites, e))
    if (fuses or len(reads) == 1) and shape.kind not in STATEFUL and shape.kind is not AttentionKind.MLA:
        rotary = model.position_embedding == "rope"
        copied = eager and view.setup.batch > 1
        parts.append(
            act.fused_projection_view(
                view.setup.product_bytes, rotary=rotary, cached=view.cached, copied=copied
            )
        )
    parts.append(_latent_values(view))
    return parts


def _latent_values(view: View) -> Terms:
    """Values of a latent attention are a view of what their matrix put out, with the keys' part without positions."""
    shape, setup = view.layer.attention, view.setup
    viewed = (
        setup.runtime in RUNS_TRANSFORMERS and not view.cached and not view.makes_scores and bool(view.heads)
    )
    if shape.kind is not AttentionKind.MLA or not viewed:
        return {}
    return {"n": setup.product_bytes * (shape.head_dim - shape.qk_rope_head_dim)}


def attention_core(view: View, *, eager: bool) -> Terms:
    """What the attention itself keeps between its matrices, scores apart."""
    shape, e, setup = view.layer.attention, view.setup.compute_bytes, view.setup
    if shape.kind in STATEFUL:
        return {"w": 2 * e, "o": e}
    repeats = shape.num_kv_heads != shape.num_heads and shape.kind is not AttentionKind.MLA
    if eager and shape.num_kv_heads == 1 and setup.batch == 1:
        repeats = False  # one head of one sequence is read as all of them without a copy
    cache: Terms = {"k": e, "v": e} if view.cached and repeats else {}
    if eager and view.cached:
        cache = add(cache, _widened_keys(view, 4 - e if repeats else 4))
    if not view.heads:
        return cache
    if eager:
        wide: Terms = {"q": 4 - e, "k": 4 - e} if multiplies_in_fp32(view) else {}
        return add(act.eager_attention(e, repeats=repeats, trained=view.heads), wide, cache)
    if e == 4:
        return add(act.efficient_fp32_attention(repeats=repeats), cache)
    if repeats and repeats_keys(view.model.model_type, setup):
        return add(act.eager_attention(e, repeats=True), {"o": e, "n": 4})
    return add(act.flash_attention(e), _widened_keys(view, 4), _masked(view, repeats=repeats))


def _masked(view: View, *, repeats: bool) -> Terms:
    """A window shorter than the sequence needs a mask, which every layer casts, and keys repeated for every query head.

    No fused kernel of sdpa groups queries under a mask (transformers `sdpa_mask`, `use_gqa_in_sdpa`). `u`: mask entries
    per token, one row of the batch serves all.
    """
    setup, window = view.setup, view.layer.attention.window
    hf = setup.runtime in {"generic", "hf_trainer"} and (not setup.version or setup.version >= (5,))
    cut = bool(window) and window is not None and window < setup.sequence
    if setup.training.attention != "sdpa" or not hf or not (cut or masks_pictures(view.model, setup)):
        return {}
    e = setup.compute_bytes
    again: Terms = {"q": e, "o": e} if repeats else {}
    if not masks_pictures(view.model, setup):
        return add(again, {"u": e})
    own: Terms = {"k": -e, "v": -e} if repeats and not view.cached else {}
    return add(again, own, {"u": e * setup.batch})


def masks_pictures(model: ModelSpec, setup: Setup) -> bool:
    """Whether tokens of one picture see each other, which takes a mask of every row (`token_type_ids`)."""
    return bool(setup.training.images) and model.tower is not None and model.tower.masks_text


def _widened_keys(view: View, more: int) -> Terms:
    """Rotary positions in fp32 leave the cache an fp32 key beside the one attention casts to 16 bit.

    Packed matrices, which hand over fp32, leave it an fp32 value as well.
    """
    setup = view.setup
    if not view.cached or not setup.autocast or setup.residual_bytes != 4:
        return {}
    if setup.product_bytes > setup.compute_bytes:
        return {"k": more, "v": more}
    return {"k": more} if view.model.position_embedding == "rope" else {}


def repeats_keys(model_type: str, setup: Setup) -> bool:
    """Whether keys and values are copied for every query head before a kernel that would not need it.

    transformers before 4.48 did so for sdpa, and for flash in the classes that descend from Mistral's; torchtitan
    before February 2026 for all (`repeat_kv`), which a compiler makes again.
    """
    if setup.runtime == NAME:
        return bool(setup.version) and setup.version < GROUPS_SINCE and not setup.compiled
    if setup.runtime != "hf_trainer" or not setup.version or setup.version >= FLASH_REPEATS_BEFORE:
        return False
    return setup.training.attention == "sdpa" or model_type in MISTRAL_LIKE
