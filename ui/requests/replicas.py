"""Topic: replicas over a day of traffic."""

from typing import Final

import streamlit as st

from planner.requests import replicas
from ui import answers, parts
from ui.charts import replicas_day
from ui.cost.quotes import Kind, quotes
from ui.numbers import whole
from ui.pages.frame import plot
from ui.requests.fields import own_choice, own_number, real_of, whole_of
from ui.requests.question import Question
from ui.requests.speed import estimate
from ui.words import Words

STEP_S: Final = 60.0
DAY_S: Final = 86_400
PROFILES: Final = ("day", "steady", "burst")
BURST: Final = (0.4, 0.45)
"""When the burst lasts, as shares of the day."""


def traffic(profile: str, peak_per_s: float) -> tuple[float, ...]:
    """Requests a second, minute by minute, over a day."""
    steps = int(DAY_S / STEP_S)
    if profile == "steady":
        return (peak_per_s,) * steps
    if profile == "burst":
        low, high = (int(share * steps) for share in BURST)
        return tuple(peak_per_s if low <= step < high else peak_per_s * 0.1 for step in range(steps))
    return replicas.day(peak_per_s, steps=steps)


def draw(question: Question, words: Words) -> None:
    """Rules and traffic from the user, then the day."""
    cheapest = _cheapest(question.plan.worst.gpu_id)
    with st.container(key="requests_fields", horizontal=True, gap="small", vertical_alignment="bottom"):
        profile = own_choice(words, "profile", PROFILES)
        peak = real_of(words, "workload.requests_per_s", 2.0, step=0.5)
        capacity = own_number(words, "capacity", estimate(question).capacity_per_s, step=0.5, format_="%.2f")
        real_of(words, "autoscale.gpu_utilisation_up", 0.75, step=0.05)
        whole_of(words, "autoscale.step_up", 2)
        real_of(words, "autoscale.queue_ms_up", 200.0, step=50.0, format_="%g")
        real_of(words, "autoscale.idle_s_down", 300.0, step=60.0, format_="%g")
        whole_of(words, "autoscale.step_down", 1)
        start = own_number(words, "start_s", 0.0, step=30.0, format_="%g")
        price = own_number(words, "usd_per_card_hour", cheapest, step=0.1, format_="%.2f")
    if capacity is None:
        st.html(f'<div class="p m">{words.html("requests.replicas.unknown")}</div>')
        return
    rules = replicas.rules_of(question.plan.scenario.autoscale, start_s=start or 0.0)
    load = traffic(profile, peak)
    moments = replicas.run(load, step_s=STEP_S, capacity_per_s=capacity, rules=rules)
    plot(
        replicas_day.replicas_day(moments, capacity, words),
        "requests_replicas",
        replicas_day.alternative(moments, capacity, words),
    )
    hours = replicas.replica_hours(moments, STEP_S)
    fixed = replicas.fixed_replicas(load, capacity_per_s=capacity, busy_frac=rules.busy_frac)
    cells = [
        (words("requests.replicas.hours"), f"{hours:,.0f}", words("requests.replicas.a_day")),
        (words("requests.replicas.most"), whole(max(moment.replicas for moment in moments)), ""),
        (
            words("requests.replicas.fixed"),
            whole(fixed),
            words("requests.replicas.fixed_hours", n=whole(fixed * DAY_S / 3600)),
        ),
        (words("requests.replicas.cost"), *_cost(hours, price, question.cards, words)),
        (
            words("requests.replicas.wait"),
            words("requests.seconds", value=f"{max(moment.queue_s for moment in moments):,.1f}"),
            "",
        ),
    ]
    st.html(parts.strip(cells))
    note = words.html("requests.replicas.note", cards=whole(question.cards), most=whole(rules.most))
    st.html(f'<div class="p m">{note}</div>')


def _cost(hours: float, price: float | None, cards: int, words: Words) -> tuple[str, str]:
    if price is None:
        return words("requests.unknown"), ""
    return f"${hours * cards * price:,.0f}", words(
        "requests.replicas.per_hour", usd=f"{hours * cards * price / 24:,.2f}"
    )


def _cheapest(gpu_id: str) -> float | None:
    """The lowest on-demand price of the card that the tables have; None where they have none."""
    prices = [
        quote.usd_per_gpu_hour
        for quote in quotes(answers.tables().offers)
        if quote.kind is Kind.ON_DEMAND and quote.gpu_id == gpu_id and quote.usd_per_gpu_hour is not None
    ]
    return round(min(prices), 2) if prices else None
