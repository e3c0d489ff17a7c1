"""The size of the job: sequence and micro-batch, or context, load and formats of a server."""

from typing import Final

import streamlit as st

from planner.model.spec import Latents
from ui.inputs import requests, sights
from ui.inputs.desk import Desk
from ui.inputs.pictures import draw_note, draw_number, draw_size
from ui.inputs.widgets import choice, number, optional_fraction, optional_number
from ui.pictures import latents_of

SCHEMA_TOKENS: Final = 4096
WEIGHT_FORMATS: Final = (
    *("bf16", "fp16", "fp8", "int8", "awq4", "gptq4", "gptq8", "nf4", "mxfp4", "nvfp4"),
    *("sparse24_bf16", "sparse24_fp8", "q4_k_m", "q8_0"),
)
KV_FORMATS: Final = ("bf16", "fp16", "fp8", "q8_0", "q4_0")


def draw(desk: Desk) -> None:
    """The two sizes everyone sets side by side, the rest beneath."""
    if desk.is_training:
        _training(desk)
    else:
        _serving(desk)


def _training(desk: Desk) -> None:
    latents = latents_of(desk.document)
    left, right = st.columns(2, gap="small", wrap=False)
    with left:
        if latents is None:
            number(desk, "training.sequence_length", default=_own_length(desk), step=1024)
        else:
            draw_size(desk, latents)
    with right:
        number(desk, "training.micro_batch", default=1)
    if latents is not None:
        draw_note(desk, latents)
    desk.messages("training.sequence_length", "training.micro_batch")
    number(desk, "training.gradient_accumulation", default=1)
    desk.messages("training.gradient_accumulation")
    sights.draw(desk)


def _own_length(desk: Desk) -> int:
    """The sequence in force where none is given: the model's own, or the schema's."""
    filled = desk.default_value("training.sequence_length")
    return int(filled) if filled else SCHEMA_TOKENS


def _pictures(desk: Desk, latents: Latents) -> None:
    """Side, number and format of pictures that are made."""
    left, right = st.columns(2, gap="small", wrap=False)
    with left:
        draw_size(desk, latents)
    with right:
        draw_number(desk, latents)
    draw_note(desk, latents)
    desk.messages("serving.max_model_len", "workload.concurrency")
    choice(desk, "serving.weights", WEIGHT_FORMATS, group="format")
    desk.messages("serving.weights")


def _serving(desk: Desk) -> None:
    words, latents = desk.words, latents_of(desk.document)
    if latents is not None:
        _pictures(desk, latents)
        return
    left, right = st.columns(2, gap="small", wrap=False)
    with left:
        optional_number(
            desk, "serving.max_model_len", placeholder=words("field.serving.max_model_len.auto"), step=1024
        )
    with right:
        optional_number(desk, "workload.concurrency", placeholder=words("field.workload.concurrency.auto"))
    desk.messages("serving.max_model_len", "workload.concurrency")
    left, right = st.columns(2, gap="small", wrap=False)
    with left:
        choice(desk, "serving.weights", WEIGHT_FORMATS, group="format")
    with right:
        choice(desk, "serving.kv_cache", KV_FORMATS, group="format")
    desk.messages("serving.weights", "serving.kv_cache")
    filled = desk.default_value("serving.memory_utilization")
    optional_fraction(
        desk,
        "serving.memory_utilization",
        placeholder=words("field.runtime_default", value=filled) if filled else words("field.no_default"),
    )
    desk.messages("serving.memory_utilization")
    requests.draw(desk)
