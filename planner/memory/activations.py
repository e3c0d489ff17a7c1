"""What one layer keeps for its backward pass, in bytes per token by width.

Widths, per token and on one device: `h` residual, `r` residual where sequence parallelism divides it, `q`, `k`, `v`
query, key and value heads, `o` attention output, `i` feed-forward, `n` query heads, `nk` key-value heads.
Read off transformers' eager modules and checked byte for byte against traces of Llama and GPT-2 (bf16 and autocast).
Element sizes are parameters: `res` of the residual stream, `e` of products (both 2 or 4).
"""

from planner.memory.terms import Terms, add

COMPOSED_GELU = frozenset({"gelu_new", "gelu_fast", "gelu_pytorch_tanh_python"})
ONE_TENSOR = frozenset({"relu"})
TWO_TENSORS = frozenset({"quick_gelu"})
"""A product with a sigmoid, single steps (`QuickGELUActivation`): both factors are kept."""


def rms_norm(x: str, *, res: int, fused: bool, trained: bool, upcast_weight: bool = False) -> Terms:
    """An RMS norm over width `x` (its output is counted with whoever keeps it).

    Eager: the fp32 input (the residual itself, or a copy of it), the normalised input if the weight is trained, and
    the reciprocal root. Fused kernels keep the input as it is and the root. Validity: transformers `LlamaRMSNorm`;
    `upcast_weight` for Gemma's, which multiplies in fp32; kernels as Liger's and Unsloth's.
    """
    if fused:
        return {x: res, "": 4}
    normed = (4 if upcast_weight else res) if trained else 0
    return {x: 4 + normed, "": 4}


def centred_norm(x: str, *, trained: bool) -> Terms:
    """Cohere's layer norm, single steps in fp32: the centred input twice, the normalised one if trained, the root."""
    return {x: 8 + (4 if trained else 0), "": 4}


def layer_norm(x: str, *, res: int) -> Terms:
    """PyTorch's layer norm: the input, mean and reciprocal deviation."""
    return {x: res, "": 8}


def shared_input(x: str, linears: int, *, given: int, e: int) -> Terms:
    """The input of linears that read one tensor: kept once, or once each where autocast has to cast it."""
    return {x: e if given == e else e * linears}


def flash_attention(e: int) -> Terms:
    """Flash or memory-efficient attention: query, key, value, output, and the fp32 log-sum-exp of each head."""
    return {"q": e, "k": e, "v": e, "o": e, "n": 4}


def efficient_fp32_attention(*, repeats: bool) -> Terms:
    """fp32 runs on the memory-efficient kernel, which needs keys and values repeated for every query head."""
    keys: Terms = {"q": 4, "o": 4} if repeats else {"k": 4, "v": 4}
    return add({"q": 4, "o": 4, "n": 4}, keys)


ALL_HEADS = frozenset({"q", "k", "v"})


def eager_attention(e: int, *, repeats: bool, trained: frozenset[str] = ALL_HEADS) -> Terms:
    """Eager attention outside the scores: query, key and value (repeated under grouped queries).

    A product keeps each factor for the other's gradient: the query for the key's, the key for the query's, the value
    for the scores'. `trained` names those of the three that need one. The output is kept by whoever reads it.
    """
    keys, values = ("q", "o") if repeats else ("k", "v")
    query: Terms = {"q": e} if "k" in trained else {}
    key: Terms = {keys: e} if "q" in trained else {}
    value: Terms = {values: e} if trained & {"q", "k"} else {}
    return add(query, key, value)


def eager_scores(e: int, *, upcast: bool, dropout: bool) -> int:
    """Bytes per head and score that eager attention keeps: the softmax and what the product with the values reads.

    The latter is the softmax itself, or its cast to the input's format, or dropout's output (the mask is counted
    apart, and dropout does not keep what it reads).
    """
    softmax = 4 if upcast else e
    return softmax + (e if dropout or softmax != e else 0)


def eager_score_gradients(e: int, *, upcast: bool, half: bool = True) -> int:
    """Bytes per head and score that the softmax's backward adds: the gradients before and after it.

    The cast is gone by then. CUDA's kernel writes the second one in the input's format where it reads fp16 and puts out
    fp32 (`half`); for bf16 the input is widened first, and so is its gradient (PyTorch `SoftMax.cpp`).
    """
    softmax = 4 if upcast else e
    return softmax + (e if half else softmax) - (e if softmax != e else 0)


def fused_projection_view(e: int, *, rotary: bool, cached: bool, copied: bool) -> Terms:
    """What views into a fused query-key-value output keep alive beyond the attention's own inputs.

    With rotary positions query and key are new tensors and value is a view, unless a cache or a product copied it.
    With learned positions query, key and value are all views; a cache copies key and value. `copied`: eager products of
    several sequences copy the heads they read, which leaves no view. Traced on GPT-2.
    """
    if rotary:
        return {} if cached or copied else {"q": e, "k": e}
    return {"k": e, "v": e} if cached and not copied else {}


def gated_mlp(*, e: int, fused: bool, one_tensor: bool) -> Terms:
    """act(gate) * up: the gate, its activation, and up; a fused kernel recomputes the activation."""
    return {"i": e * (2 if fused or one_tensor else 3)}


def fused_name(act: str) -> str:
    """The same activation as one kernel."""
    return "gelu" if act in COMPOSED_GELU else act


def plain_mlp(act: str, *, e: int, autocast: bool, read: bool = True) -> Terms:
    """An activation: its input, or for GELU composed of Python steps also the cube, the tanh and both factors.

    Where the output is enough, nothing if the matrix after it keeps that (`read`).
    Under autocast `pow` and `tanh` run in fp32: three fp32 tensors and a 16-bit one.
    """
    if act in COMPOSED_GELU:
        return {"i": 3 * 4 + e if autocast and e < 4 else 4 * e}
    if act in TWO_TENSORS:
        return {"i": 2 * e}
    return {"i": 0 if act in ONE_TENSOR and read else e}


def residual_dropout() -> Terms:
    """Masks after attention and after the MLP, one byte an element (CUDA's `native_dropout`)."""
    return {"h": 2}


def adapter_input(
    x: str,
    linears: int,
    *,
    given: int,
    dtype: int,
    e: int,
    autocast: bool,
    dropout: bool,
    packed: bool = False,
) -> Terms:
    """The inputs that low-rank adapters on `linears` matrices keep.

    Each adapter casts its input to its own format (PEFT `_cast_input_dtype`) and autocast casts it again; without
    either, adapters that read one tensor share it. Dropout gives each adapter its own output (masks count apart).
    """
    kept = e if autocast else dtype
    own = dropout or not adapter_shares(given=given, dtype=dtype, e=e, autocast=autocast, packed=packed)
    return {x: linears * kept if own else kept}


def adapter_shares(*, given: int, dtype: int, e: int, autocast: bool, packed: bool = False) -> bool:
    """Whether an adapter without dropout reads its input as it is given, without a cast on the way.

    On a packed matrix it leaves the cast to autocast where that is on (PEFT `lora/bnb.py`, `requires_conversion`).
    """
    if packed and autocast:
        return given == e
    return given == (e if autocast else dtype) and not (autocast and dtype != given)


def fused_adapter_input(x: str, linears: int, *, e: int, dropout: bool) -> Terms:
    """Fused adapter kernels keep the shared input, and with dropout each matrix's own dropped copy, no masks."""
    shared = 0 if x == "o" else e
    return {x: shared + (e * linears if dropout else 0)}


def adapter_middle(linears: int, *, dtype: int, e: int, autocast: bool) -> Terms:
    """The rank-wide output of each down projection, which the up projection keeps."""
    return {"rank": linears * (e if autocast else dtype)}


def scaled_results(dtype: int, *, e: int, autocast: bool) -> Terms:
    """DoRA's scale is trained, so each matrix keeps the base's output and the adapter's, width `y` over all of them.

    PEFT `DoraLinearLayer.forward`: (scale - 1) * base + scale * adapter, the norm below the scale detached.
    """
    return {"y": e + (e if autocast else dtype)}
