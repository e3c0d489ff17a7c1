"""Topic: blocks in common, with and without sharing."""

import streamlit as st

from planner.requests import sharing
from planner.requests.sharing import Blocks
from ui import parts
from ui.numbers import gib2, percent, whole
from ui.requests.fields import own_number, real_of, whole_of
from ui.requests.question import ANSWER_TOKENS, PROMPT_TOKENS, Question
from ui.words import Words


def draw(question: Question, words: Words) -> None:
    """A common beginning, several answers, beams."""
    with st.container(key="requests_fields", horizontal=True, gap="small", vertical_alignment="bottom"):
        whole_of(words, "workload.prompt_tokens", PROMPT_TOKENS, step=256)
        whole_of(words, "workload.output_tokens", ANSWER_TOKENS, step=64)
        prefix = whole_of(words, "workload.shared_prefix_tokens", 0, step=128)
        hits = real_of(words, "workload.prefix_hit_frac", 1.0, step=0.05)
        width = whole_of(words, "workload.beam_width", 4)
        samples = round(own_number(words, "samples", 4, step=1.0, format_="%.0f") or 1)
    block, prompt, answer = question.block_tokens, question.prompt_tokens, question.answer_tokens
    steps = min(answer, sharing.MOST_STEPS)
    rows = [
        (
            words("requests.sharing.prefix", n=whole(question.sequences), tokens=whole(prefix)),
            sharing.common_beginning(
                prefix_tokens=prefix,
                request_tokens=prompt + answer,
                requests=question.sequences,
                hit_frac=hits,
                block_tokens=block,
            ),
        ),
        (
            words("requests.sharing.samples", n=whole(samples)),
            sharing.parallel_samples(
                prompt_tokens=prompt, answer_tokens=answer, samples=samples, block_tokens=block
            ),
        ),
        (
            words("requests.sharing.beams", n=whole(width), tokens=whole(steps)),
            sharing.beams(prompt_tokens=prompt, answer_tokens=steps, width=width, block_tokens=block),
        ),
    ]
    head = [words(f"requests.sharing.{name}") for name in ("what", "separate", "shared", "saved")]
    body = [[name, *_cells(blocks, question)] for name, blocks in rows]
    st.html(parts.table(head, body, name=words("requests.topic.sharing"), wide=(0,)))
    saved = sharing.prefill_saved_tokens(
        prefix_tokens=prefix, requests=question.sequences, hit_frac=hits, block_tokens=block
    )
    say = words.html("requests.sharing.prefill", tokens=whole(saved), block=whole(block))
    said = words.sentences([say, words.html("requests.sharing.note")])
    st.html(f'<div class="p m">{said}</div>')


def _cells(blocks: Blocks, question: Question) -> list[str]:
    size = question.block_tokens * question.served.kv_bytes_per_token
    return [gib2(blocks.separate * size), gib2(blocks.shared * size), percent(blocks.saved_frac)]
