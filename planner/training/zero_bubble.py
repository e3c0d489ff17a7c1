"""Zero-bubble pipelines: what the passes of weight gradients, run later, keep of micro-batches whose backward is over.

The backward pass is divided in two: gradients of the stream go on to the stage below at once, those of the weights wait
for a moment in which the stage would idle (schedule ZB-H1). Until then each matrix keeps its input and the gradient of
its output. A stage that has k stages above it keeps the activations of k + 1 micro-batches, as under 1F1B, and as many
waiting ones as there are stages below it. Qi et al. 2024, section 2 and table 1.
"""

from planner.ledger import Category, Entry, Phase
from planner.memory.terms import exact, item, whole
from planner.model.spec import Layer, Linear, MlpKind, Part, Split
from planner.training.step import Kind, Step
from planner.units import ceil_div

REFERENCE = "zero_bubble"
PHASES = frozenset({Phase.FORWARD, Phase.LOSS, Phase.BACKWARD})


def waiting_micro_batches(stage: int, in_flight: float, accumulation: int) -> int:
    """Micro-batches whose weight gradients wait at once."""
    return max(0, min(stage, accumulation - int(in_flight)))


def waiting_entries(step: Step) -> list[Entry]:
    """Inputs of matrices and gradients of their outputs, for every micro-batch that waits."""
    setup, share = step.setup, step.share
    if setup.parallel.pipeline_schedule != "zero_bubble" or share.num_stages == 1:
        return []
    times = waiting_micro_batches(share.stage, share.in_flight, setup.training.gradient_accumulation)
    if not times or setup.adapter is not None:
        return []
    return [_entry(step, kind, times) for kind in step.kinds]


def _entry(step: Step, kind: Kind, times: int) -> Entry:
    setup = step.setup
    width, e = matrix_width(kind.layer, setup.division.tensor), setup.compute_bytes
    layers, tokens = kind.count * times, setup.batch * kind.sequence
    return item(
        Category.ACTIVATIONS,
        "waiting_gradients",
        whole(layers * tokens * width * e),
        "L*t*w*e",
        {"L": exact(layers), "t": tokens, "w": width, "e": e},
        REFERENCE,
        phases=PHASES,
    )


def matrix_width(layer: Layer, ranks: int) -> int:
    """Elements per token of the inputs and outputs of a layer's matrices on one device; a shared input counts once."""
    return sum(_group(layer, part, ranks) for part in Part if part is not Part.EXPERTS) + _routed(
        layer, ranks
    )


def _group(layer: Layer, part: Part, ranks: int) -> int:
    found = [x for x in layer.linears if x.part is part]
    inputs = {(x.in_features, x.split is Split.ROW) for x in found}
    read = sum(ceil_div(width, ranks) if cut else width for width, cut in inputs)
    return read + sum(_out(x, ranks) for x in found)


def _out(linear: Linear, ranks: int) -> int:
    return ceil_div(linear.out_features, ranks) if linear.split is Split.COLUMN else linear.out_features


def _routed(layer: Layer, ranks: int) -> int:
    """Each token passes through so many experts."""
    if layer.mlp.kind is not MlpKind.MOE:
        return 0
    return layer.mlp.experts_per_token * _group(layer, Part.EXPERTS, ranks)
