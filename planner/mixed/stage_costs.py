"""What a stage of a pipeline needs and takes on one kind of card: the planner's own ledger, band and speed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from planner.accuracy.bands import band_for, with_floor
from planner.estimate import SEVERITY, verdict_for
from planner.hardware import Gpu, Tables
from planner.mixed.solve import Place
from planner.model.spec import ModelSpec
from planner.placement import Share, micro_batches_in_flight, usable_bytes
from planner.plan_types import Plan, Verdict
from planner.resolve import apply
from planner.scenario import Device, Scenario
from planner.throughput import flops as fl
from planner.throughput.training_flops import passes_of
from planner.throughput.training_speed import training_speed
from planner.training.ledgers import training_ledger
from planner.training.setup import setup_for

OF_A_MICRO_BATCH: Final = frozenset(
    {
        "matrix_products",
        "attention",
        "memory_traffic",
        "recompute",
        "launches",
        "tensor_parallel",
        "context_parallel",
        "expert_parallel",
    }
)
"""Parts of a step that every stage takes for every micro-batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A kind of card of the job.

    Attributes:
        gpu: What the tables say of it.
        row: A row of the question with it.
        indices: Positions in the job.
    """

    gpu: Gpu
    row: Device
    indices: tuple[int, ...]


class StageCosts:
    """Memory and time of stages, each worked out once.

    Args:
        resolved: The question with its runtime's defaults, without a division of its own.
        model: The model.
        cards: The kinds of card.
        data: Copies of the pipeline.
        tables: Cards and constants.
        wanted: The worst verdict that a stage may have: `FITS`, or `UNKNOWN` for any that the estimate fits in.

    Attributes:
        speed_known: Whether the tables tell the speed of every kind of card; else all count as equally fast.
    """

    def __init__(
        self,
        resolved: Scenario,
        model: ModelSpec,
        cards: Sequence[Card],
        data: int,
        tables: Tables,
        wanted: Verdict,
    ) -> None:
        self.model, self.cards, self.data, self.tables = model, tuple(cards), data, tables
        parallel = resolved.parallel.model_copy(update={"data": data, "stages": None})
        self.base = resolved.model_copy(update={"parallel": parallel})
        self.wanted = wanted
        self._fits: dict[tuple[object, ...], bool] = {}
        self._most: dict[tuple[object, ...], int] = {}
        self._held: dict[int, float] = {}
        self._alike = len(model.distinct_layers()) == 1
        self._prefix: dict[tuple[int, int], tuple[list[float], float]] = {}
        self._weights = self._layer_weights()
        self.speed_known = all(self._whole_model_s(kind, 1) is not None for kind in range(len(self.cards)))

    def seconds(self, place: Place) -> float | None:
        """Time of a micro-batch on a stage, None where its cards don't hold it (`Seconds` of the search)."""
        if not self.fits(place):
            return None
        tensor = self.tensor_of(place)
        return self.stage_s(place.kind, tensor, (place.start, place.end), is_last=place.after == 0)

    def stage_s(self, kind: int, tensor: int, layers: tuple[int, int], *, is_last: bool) -> float:
        """Time of a micro-batch on a stage of one kind of card, whether it fits or not."""
        sums, head = self._times(kind, tensor)
        return sums[layers[1]] - sums[layers[0]] + (head if is_last else 0.0)

    def least_layer_s(self, kinds: Sequence[tuple[int, int]]) -> float:
        """A time that no layer beats on any of the kinds and tensor degrees."""
        found = [
            layers[i + 1] - layers[i]
            for kind, tensor in kinds
            for layers, _ in [self._times(kind, tensor)]
            for i in range(self.model.num_layers)
        ]
        return min(found, default=0.0)

    def tensor_of(self, place: Place) -> int:
        """Tensor-parallel degree of a stage of so many cards."""
        return place.width // (self.data * self.base.parallel.context)

    def fits(self, place: Place) -> bool:
        """Whether the estimate fits in every card of the stage, with the verdict that is wanted."""
        held = self.in_flight(place)
        family = (place.kind, place.width, held, place.after == 0, place.is_first)
        layers = self.model.layers[place.start : place.end]
        if self._alike:
            if family not in self._most:
                self._most[family] = self._most_layers(place, held)
            return len(layers) <= self._most[family]
        key = (*family, tuple(sorted(Counter(map(id, layers)).items())))
        if key not in self._fits:
            self._fits[key] = self._holds(self._share(place, held))
        return self._fits[key]

    def _most_layers(self, place: Place, held: float) -> int:
        """The most equal layers that such a stage holds, by bisection; 0 if not even one."""
        low, high = 0, self.model.num_layers + 1
        while high - low > 1:
            middle = (low + high) // 2
            tried = replace(place, start=0, end=middle)
            low, high = (middle, high) if self._holds(self._share(tried, held)) else (low, middle)
        return low

    def in_flight(self, place: Place) -> float:
        """Micro-batches that the stage keeps: how many stages follow decides."""
        if place.after not in self._held:
            parallel = self.base.parallel.model_copy(update={"pipeline": place.after + 1})
            accumulation = self.base.training.gradient_accumulation
            found = micro_batches_in_flight(0, parallel, accumulation, self.model.num_layers)
            self._held[place.after] = found
        return self._held[place.after]

    def _share(self, place: Place, held: float) -> Share:
        card, model, parallel = self.cards[place.kind], self.model, self.base.parallel
        sharded = parallel.sharding != "none"
        return Share(
            indices=tuple(range(place.width)),
            gpu=card.gpu,
            device=card.row,
            num_stages=1 if place.is_first and place.after == 0 else 2,
            layer_range=(place.start, place.end),
            layers=model.layers[place.start : place.end],
            encoder_layers=model.encoder_layers if place.is_first else (),
            holds_embedding=place.is_first,
            holds_head=place.after == 0,
            in_flight=held,
            tensor=self.tensor_of(place),
            data=self.data,
            context=parallel.context,
            shard=self.data * parallel.context if sharded else 1,
        )

    def _holds(self, share: Share) -> bool:
        scenario = apply(self.base, {"parallel.pipeline": share.num_stages, "parallel.tensor": share.tensor})
        ledger = training_ledger(share, scenario, self.model, self.tables)
        peak, (usable, _) = ledger.peak()[1], usable_bytes(share)
        if usable is None or peak > usable:
            return False
        band = with_floor(band_for(peak, scenario, self.tables), ledger)
        found = verdict_for(band, usable, scenario.hardware.margin_frac)
        return SEVERITY.index(found) <= SEVERITY.index(self.wanted)

    def _times(self, kind: int, tensor: int) -> tuple[list[float], float]:
        """Seconds of the layers summed up to each, and of the head."""
        key = kind, tensor
        if key not in self._prefix:
            layers, head = self._weights
            whole = self._whole_model_s(kind, tensor) if self.speed_known else 1.0 / tensor
            unit = (whole or 1.0) / (sum(layers) + head)
            self._prefix[key] = [0.0, *accumulate(weight * unit for weight in layers)], head * unit
        return self._prefix[key]

    def _layer_weights(self) -> tuple[list[float], float]:
        """Operations of each layer and of the head for a token, those done again included."""
        model = self.model
        width = self.data * self.base.parallel.context
        whole = Place(kind=0, width=width, after=0, start=0, end=model.num_layers, is_first=True)
        setup = setup_for(self._share(whole, 1), self.base, model)
        causal, passes = fl.is_causal(model), passes_of(setup)
        length = setup.length
        each: dict[int, float] = {}
        for layer, _ in model.distinct_layers():
            load = fl.layer_load(layer, model.hidden_size)
            seen = fl.layer_seen_keys(layer, length, causal=causal)
            products = fl.matrix_flops(1.0, load.weights + load.expert_weights) + load.state_flops
            attention = fl.attention_flops(1.0, seen, float(load.score_width))
            each[id(layer)] = float(products * passes.dense + attention * passes.attention)
        head = 0.0 if model.head is None else float(fl.matrix_flops(1.0, model.head.weight_params))
        return [each[id(layer)] for layer in model.layers], head * (3 if setup.adapter is None else 2)

    def _whole_model_s(self, kind: int, tensor: int) -> float | None:
        """One micro-batch of the whole model on cards of one kind; None where the tables lack a rate."""
        card = self.cards[kind]
        alone = apply(
            self.base,
            {
                "parallel.pipeline": 1,
                "parallel.tensor": tensor,
                "parallel.data": 1,
                "training.gradient_accumulation": 1,
            },
        )
        row = card.row.model_copy(update={"count": tensor * self.base.parallel.context})
        hardware = alone.hardware.model_copy(update={"devices": (row,)})
        alone = alone.model_copy(update={"hardware": hardware})
        plan = Plan(
            scenario=alone, resolved=alone, model=self.model, devices=(), fullest=0, verdict=Verdict.UNKNOWN
        )
        parts = training_speed(plan, self.tables).parts
        return sum(part.time_s for part in parts if part.name in OF_A_MICRO_BATCH) or None
