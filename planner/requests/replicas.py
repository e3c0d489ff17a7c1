"""Replicas over a profile of traffic, by rules: add when busy or when requests queue, take away when idle.

Time goes in equal steps. A replica answers `capacity_per_s` requests a second; what cannot be answered waits.
The router fills replicas in order up to the utilisation that adds one, so a replica is idle when the others
would carry the traffic without reaching it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.requests.errors import positive, share
from planner.scenario import Autoscale

REFERENCE: Final = "kubernetes_hpa"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When replicas come and go.

    Attributes:
        busy_frac: Utilisation above which `many_up` are added.
        many_up: Replicas added when busy.
        queue_s: Wait above which `few_up` are added.
        few_up: Replicas added when requests queue.
        idle_s: How long a replica is idle before `down` are taken away.
        down: Replicas taken away.
        least: Fewest replicas.
        most: Most replicas.
        start_s: How long a new replica takes to answer.
    """

    busy_frac: float = 0.75
    many_up: int = 2
    queue_s: float = 0.2
    few_up: int = 1
    idle_s: float = 300.0
    down: int = 1
    least: int = 1
    most: int = 64
    start_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One step.

    Attributes:
        time_s: When it begins.
        requests_per_s: What arrives.
        replicas: Replicas there are, starting ones included: what is paid for.
        ready: Replicas that answer.
        utilisation_frac: Work done over work that could be done.
        queue_s: How long what waits at the end of the step would take.
    """

    time_s: float
    requests_per_s: float
    replicas: int
    ready: int
    utilisation_frac: float
    queue_s: float


def rules_of(autoscale: Autoscale | None, *, most: int = 64, start_s: float = 0.0) -> Rules:
    """The rules of a scenario; what it leaves open is the article's: 75 %, 200 ms, 5 min, +2, +1, -1.

    `step_up` is what is added when busy; one is added when requests queue.
    """
    given = autoscale or Autoscale()
    base = Rules()
    return Rules(
        busy_frac=base.busy_frac if given.gpu_utilisation_up is None else given.gpu_utilisation_up,
        many_up=given.step_up or base.many_up,
        queue_s=base.queue_s if given.queue_ms_up is None else given.queue_ms_up / 1000,
        idle_s=base.idle_s if given.idle_s_down is None else given.idle_s_down,
        down=given.step_down or base.down,
        most=most,
        start_s=start_s,
    )


def run(
    traffic_per_s: Sequence[float], *, step_s: float, capacity_per_s: float, rules: Rules
) -> tuple[Moment, ...]:
    """Replicas over the profile; they start at the least.

    Args:
        traffic_per_s: Requests a second in each step.
        step_s: Length of a step; rules are looked at once a step, at its end.
        capacity_per_s: Requests a second of one replica.
        rules: When replicas come and go.

    Raises:
        RequestsInputError: A rate, a length or a share is outside what is allowed.
    """
    positive("step_s", step_s)
    positive("capacity_per_s", capacity_per_s)
    share("autoscale.gpu_utilisation_up", rules.busy_frac)
    positive("least", rules.least)
    starting: list[float] = [0.0] * rules.least
    moments: list[Moment] = []
    backlog = idle_for = 0.0
    for index, arriving in enumerate(traffic_per_s):
        now = index * step_s
        ready = sum(1 for time in starting if time <= now)
        work, room = backlog + arriving * step_s, ready * capacity_per_s * step_s
        backlog = max(0.0, work - room)
        used = min(1.0, work / room) if room else 1.0
        queue = backlog / (ready * capacity_per_s) if ready else (float("inf") if backlog else 0.0)
        moments.append(
            Moment(
                time_s=now,
                requests_per_s=arriving,
                replicas=len(starting),
                ready=ready,
                utilisation_frac=used,
                queue_s=queue,
            )
        )
        idle = not backlog and arriving <= (len(starting) - 1) * capacity_per_s * rules.busy_frac
        idle_for = idle_for + step_s if idle else 0.0
        added = _added(used, queue, rules, waiting=ready < len(starting))
        if added:
            born = now + step_s + rules.start_s
            starting += [born] * min(added, rules.most - len(starting))
        elif idle_for > rules.idle_s and len(starting) > rules.least:
            gone = min(rules.down, len(starting) - rules.least)
            starting = sorted(starting)[: len(starting) - gone]
            idle_for = 0.0
    return tuple(moments)


def _added(used_frac: float, queue_s: float, rules: Rules, *, waiting: bool) -> int:
    """Replicas to add; none while some are still starting."""
    if waiting:
        return 0
    if used_frac > rules.busy_frac:
        return rules.many_up
    return rules.few_up if queue_s > rules.queue_s else 0


def replica_hours(moments: Sequence[Moment], step_s: float) -> float:
    """Hours of replicas that are paid for."""
    return sum(moment.replicas for moment in moments) * step_s / 3600


def fixed_replicas(traffic_per_s: Sequence[float], *, capacity_per_s: float, busy_frac: float) -> int:
    """Replicas that carry the fullest step without reaching the utilisation, if they never came and went."""
    positive("capacity_per_s", capacity_per_s)
    positive("autoscale.gpu_utilisation_up", busy_frac)
    return max(1, math.ceil(max(traffic_per_s, default=0.0) / (capacity_per_s * busy_frac)))


def day(peak_per_s: float, *, steps: int = 288, quiet_frac: float = 0.1) -> tuple[float, ...]:
    """A day of traffic: quiet at four at night, fullest at four in the afternoon, a cosine between.

    Args:
        peak_per_s: Requests a second when it is fullest.
        steps: Equal parts of the day.
        quiet_frac: Traffic when it is quietest, as a share of the fullest.
    """
    positive("workload.requests_per_s", peak_per_s)
    share("quiet_frac", quiet_frac)
    middle, swing = (1 + quiet_frac) / 2, (1 - quiet_frac) / 2
    return tuple(
        peak_per_s * (middle - swing * math.cos(2 * math.pi * (part / steps - 4 / 24)))
        for part in range(steps)
    )
