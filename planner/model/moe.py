"""Mixtures of experts with grouped-query attention."""

from collections.abc import Callable

from planner.model.decoder import build_decoder
from planner.model.fields import EXPERTS, Fields
from planner.model.parts import Feed, MlpNames, moe_feed
from planner.model.spec import ModelSpec
from planner.model.style import Slides, Style

_W123 = MlpNames(gate="w1", up="w3", down="w2")


def read_routing(f: Fields, experts_keys: tuple[str, ...], top_keys: tuple[str, ...]) -> tuple[int, int]:
    """Routed experts and how many a token visits."""
    experts = f.size(*experts_keys, span=EXPERTS)
    top = f.size(*top_keys, span=EXPERTS)
    f.at_most(top_keys[0], top, experts_keys[0], experts)
    return experts, top


def _mixtral_feeds(f: Fields, style: Style, num_layers: int) -> tuple[Feed, ...]:
    experts, top = read_routing(f, ("num_local_experts", "num_experts"), ("num_experts_per_tok",))
    feed = moe_feed(
        f.size("hidden_size"),
        experts=experts,
        experts_per_token=top,
        width=f.size("intermediate_size"),
        names=_W123,
        gated=f.flag("gated_mlp", default=style.gated),
    )
    return (feed,) * num_layers


def mixtral(f: Fields) -> ModelSpec:
    """Mixtral."""
    return build_decoder(f, Style(slides=Slides.ALWAYS), _mixtral_feeds)


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {"mixtral": mixtral}
