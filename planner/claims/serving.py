"""Claims about serving: the cache of keys and values, paging, shared beginnings, cached answers, speed."""

from typing import Any, Final

import numpy as np

from planner.claims.bytes_per_parameter import LLAMA_2_7B, LLAMA_2_70B
from planner.claims.published import PERPLEXITIES
from planner.claims.types import Claim, Figure, Outcome, planned, worked
from planner.hardware import Tables
from planner.memory.kv_cache import model_shapes
from planner.requests.answer_cache import hits_for, with_cache
from planner.requests.lengths import CHAT, CHAT_PROMPT_FRAC, draw, prompts
from planner.requests.reservation import compare
from planner.requests.sharing import common_beginning
from planner.throughput.serving_speed import serving_speed
from planner.units import GB, KIB

TOKENS: Final = 2048
HALF: Final = 2
REQUESTS: Final = 2000
LOOK_UP_S: Final = 0.0005
STORE_S: Final = 0.01
"""The articles' half millisecond of a local tier, and ten for an embedding and a shared store."""
SPEED_CARDS: Final = (("consumer", "rtx-4090-24gb"), ("data_centre", "h100-sxm-80gb"))


def served(model: str, gpu: str, cards: int = 1, **serving: Any) -> dict[str, Any]:
    """A model behind vLLM."""
    return {
        "task": "serve",
        "model": {"id": model},
        "hardware": {"devices": [{"gpu": gpu, "count": cards}]},
        "runtime": {"name": "vllm"},
        "parallel": {"tensor": cards},
        "serving": {"max_model_len": 4096, **serving},
    }


def g8(tables: Tables) -> Claim:
    """70B at 2048 tokens: the formula gives a ninth of what is said, shared KV heads an eighth of that."""
    model = planned(served(LLAMA_2_70B, "a100-sxm-80gb", 4), tables).model
    layers, hidden = len(model.layers), model.hidden_size
    token = sum(
        shape.token_bytes("fp16", "fp16") * count
        for shape, count in model_shapes(model, model.layers, 1).items()
    )
    figures = [
        worked(
            name, said * GB, "bytes", "2*b*s*h*L*e",
            {"b": batch, "s": TOKENS, "h": hidden, "L": layers, "e": HALF}, 2 * batch * TOKENS * hidden * layers * HALF,
        )
        for name, said, batch in (("one_request", 48, 1), ("four_requests", 192, 4))
    ]  # fmt: skip
    real = Figure(name="with_its_kv_heads", said=48 * GB, found=token * TOKENS, unit="bytes")
    return Claim(id="g8", outcome=Outcome.WRONG, figures=(*figures, real))


def g11(_tables: Tables) -> Claim:
    """Utilisation of paged and of reserved caches, for chats and for requests that all reach the limit."""
    chats = draw(CHAT, REQUESTS, longest=TOKENS)
    full = np.full(REQUESTS, TOKENS, dtype=np.int64)
    figures = []
    for load, total, prompt in (
        ("chats", chats, prompts(chats, CHAT_PROMPT_FRAC)),
        ("full", full, full // 10 * 9),
    ):
        held = compare(prompt, total, longest=TOKENS, blocks=(16, 256))
        for name, said, one in (
            ("paged_16", 0.96, held[0]),
            ("paged_256", 0.96, held[1]),
            ("reserved", 0.4, held[-1]),
        ):
            figures.append(Figure(name=f"{name}_{load}", said=said, found=one.used_frac, unit="frac"))
    return Claim(id="g11", outcome=Outcome.DEPENDS, figures=tuple(figures))


def g32(tables: Tables) -> Claim:
    """What cached answers take off the mean first token, and shared beginnings off the cache, by how often they hit."""
    made = planned(
        {
            **served("meta-llama/Llama-3.1-8B", "h100-sxm-80gb"),
            "workload": {"prompt_tokens": KIB, "output_tokens": 256, "concurrency": 8},
        },
        tables,
    )
    first = serving_speed(made, tables).ttft_s or 1.0
    figures = [Figure(name="model_first_token", said=None, found=first, unit="s")]
    for hits in (0.1, 0.4, 0.7):
        saved = with_cache(
            requests_per_s=1, hit_frac=hits, local_s=LOOK_UP_S, store_s=STORE_S, model_first_token_s=first,
            capacity_per_s=None,
        )  # fmt: skip
        less = -(saved.first_token_frac or 0.0)
        figures.append(
            Figure(name=f"first_token_{round(hits * 100)}_percent", said=0.38, found=less, unit="frac")
        )
    look_up = min(1.0, (LOOK_UP_S + STORE_S) / first)
    needed = hits_for(0.38, look_up)
    figures.append(worked("hits_for_38", None, "frac", "r + l", {"r": 0.38, "l": round(look_up, 4)}, needed))
    for prefix in (128, 900):
        blocks = common_beginning(
            prefix_tokens=prefix, request_tokens=KIB, requests=100, hit_frac=1.0, block_tokens=16
        )
        figures.append(
            Figure(name=f"prefix_{prefix}_of_1024", said=0.6, found=blocks.saved_frac, unit="frac")
        )
    return Claim(id="g32", outcome=Outcome.DEPENDS, figures=tuple(figures))


def g35(tables: Tables) -> Claim:
    """Published perplexities of one model, and tokens a second of a 7B by card and format from what it reads."""
    base = PERPLEXITIES["fp16"]
    figures = [
        Figure(name=f"perplexity_{name}", said=None, found=row.value, unit="number", reference=row.reference)
        for name, row in PERPLEXITIES.items()
    ]
    figures += [
        worked(f"worse_{name}", said, "frac", "q/p - 1", {"q": row.value, "p": base.value}, row.value / base.value - 1)
        for name, row in PERPLEXITIES.items()
        if name != "fp16"
        for said in (0.05 if name.startswith("int4") else 0.15,)
    ]  # fmt: skip
    for card, gpu in SPEED_CARDS:
        for weights in ("bf16", "awq4"):
            job = served(LLAMA_2_7B, gpu, weights=weights)
            work = {"prompt_tokens": 512, "output_tokens": 256, "concurrency": 1}
            step = serving_speed(planned({**job, "workload": work}, tables), tables).tpot_s
            if step:
                figures.append(
                    Figure(name=f"speed_{card}_{weights}", said=65, found=1 / step, unit="tokens_per_s")
                )
    return Claim(id="g35", outcome=Outcome.DEPENDS, figures=tuple(figures))


def f1(tables: Tables) -> Claim:
    """The tree's serving half: fp8 where latency comes first, four-bit weights where throughput does."""
    figures = []
    for weights in ("bf16", "fp8", "awq4"):
        one, many = (
            serving_speed(
                planned(
                    {
                        **served("meta-llama/Llama-3.1-8B", "h100-sxm-80gb", weights=weights),
                        "workload": {"prompt_tokens": KIB, "output_tokens": 256, "concurrency": number},
                    },
                    tables,
                ),
                tables,
            )
            for number in (1, 64)
        )
        times = {"first_token": one.ttft_s, "next_token": one.tpot_s}
        figures += [
            Figure(name=f"{name}_{weights}", said=None, found=value, unit="s")
            for name, value in times.items()
            if value is not None
        ]
        rate = many.output_tokens_per_s or 0.0
        figures.append(Figure(name=f"together_{weights}", said=None, found=rate, unit="tokens_per_s"))
    return Claim(id="f1", outcome=Outcome.DEPENDS, figures=tuple(figures))
