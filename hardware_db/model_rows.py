"""The model catalogue: found by id without parsing the file, parsed and checked a row at a time."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from hardware_db.cells import is_date, read_text
from hardware_db.errors import DataError
from planner.hardware import ModelRow

_HEAD = re.compile(r'\{"kind": "(model|pipeline)", "id": "([^"\\]+)"')

TEXT_KEYS = ("kind", "id", "family", "released", "modality", "count_method", "source")
MODEL_TEXT_KEYS = ("developer", "model_type", "check", "source_kind")
MODEL_COUNT_KEYS = ("hidden_size", "num_hidden_layers")
MODEL_FLAG_KEYS = ("attention_bias", "qk_norm", "mlp_gated")
MODEL_OPTIONAL_COUNT_KEYS = (
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "sliding_window",
    "num_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "num_shared_experts",
    "shared_expert_intermediate_size",
    "first_k_dense",
    "kv_lora_rank",
    "q_lora_rank",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "v_head_dim",
    "type_vocab_size",
    "num_mtp_layers",
    "decoder_layers",
    "vision_params",
    "params_active",
    "params_formula",
    "embedding_params",
)


class Catalogue(Mapping[str, ModelRow]):
    """Rows of one kind by id; a row is parsed and checked when it is first asked for."""

    def __init__(self, file: str, lines: Mapping[str, tuple[int, str]]) -> None:
        self._file = file
        self._lines = lines
        self._rows: dict[str, ModelRow] = {}

    def __getitem__(self, model_id: str) -> ModelRow:
        row = self._rows.get(model_id)
        if row is None:
            number, text = self._lines[model_id]
            row = self._rows[model_id] = parse_row(self._file, number, text)
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def read_models(path: Path) -> tuple[Catalogue, Catalogue]:
    """The models and the diffusion pipelines of a catalogue.

    Raises:
        DataError: The file cannot be read, a line does not begin with kind and id, or an id stands twice.
    """
    lines: dict[str, dict[str, tuple[int, str]]] = {"model": {}, "pipeline": {}}
    seen: set[str] = set()
    for number, text in enumerate(read_text(path).rstrip("\n").split("\n"), start=1):
        head = _HEAD.match(text)
        if head is None:
            raise DataError(
                path.name, number, "id", text[:60], 'a line that begins {"kind": "model", "id": "..."'
            )
        if head[2] in seen:
            raise DataError(path.name, number, "id", head[2], "an id that stands once")
        seen.add(head[2])
        lines[head[1]][head[2]] = (number, text)
    return Catalogue(path.name, lines["model"]), Catalogue(path.name, lines["pipeline"])


def parse_row(file: str, number: int, text: str) -> ModelRow:
    """One line of the catalogue as a read-only mapping.

    Raises:
        DataError: Not JSON, or a key is missing or holds something that is not allowed.
    """
    try:
        row = json.loads(text)
    except json.JSONDecodeError as problem:
        raise DataError(
            file, number, f"character {problem.colno}", text[:60], f"JSON ({problem.msg})"
        ) from problem
    if not isinstance(row, dict):
        raise DataError(file, number, "", text[:60], "a JSON object")

    def check(key: str, good: bool, allowed: str) -> None:
        if not good:
            raise DataError(file, number, key, row.get(key, "missing"), allowed)

    is_model = row.get("kind") == "model"
    for key in (*TEXT_KEYS, *(MODEL_TEXT_KEYS if is_model else ())):
        check(key, isinstance(row.get(key), str) and bool(row[key].strip()), "text")
    check("released", is_date(row["released"]), "a date: YYYY, YYYY-MM or YYYY-MM-DD")
    check("params_total", _is_count(row.get("params_total")), "a whole number from 1")
    if is_model:
        for key in MODEL_COUNT_KEYS:
            check(key, _is_count(row.get(key)), "a whole number from 1")
        for key in MODEL_OPTIONAL_COUNT_KEYS:
            value = row.get(key, "missing")
            check(key, value is None or value == 0 or _is_count(value), "null or a whole number")
        for key in MODEL_FLAG_KEYS:
            check(key, isinstance(row.get(key), bool), "true or false")
        check("extra", row.get("extra") is None or isinstance(row["extra"], dict), "null or an object")
    else:
        check("components", isinstance(row.get("components"), list) and bool(row["components"]), "a list")
    return MappingProxyType(row)


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= 10**14
