"""A wrong cell is refused by file, line, column, value and what is allowed."""

from pathlib import Path

import pytest

import hardware_db
from hardware_db import DataError
from tests.hardware_db.broken import copy_of_data, line_of, replace_text, set_cell

GPU_CASES = [
    ("bandwidth_gbps", "", "a number from 5 to 30000"),
    ("bandwidth_gbps", "fast", "a number from 5 to 30000"),
    ("bandwidth_gbps", "nan", "a number from 5 to 30000"),
    ("bandwidth_gbps", "1e9", "a number from 5 to 30000"),
    ("bandwidth_gbps", "-3350", "a number from 5 to 30000"),
    ("bandwidth_gbps", "3_350", "a number from 5 to 30000"),
    ("bf16_tflops", "989400", "a number from 0.1 to 50000"),
    ("memory_gb", "0", "a number from 1 to 1000"),
    ("memory_cuda_mib", "80", "a number from 256 to 1e+06"),
    ("devices_per_card", "1.5", "a whole number from 1 to 8"),
    ("unified_memory", "maybe", "one of: yes, no"),
    ("vendor", "Nvidia", "one of: NVIDIA, AMD"),
    ("compute_capability", "nine", "major.minor"),
    ("list_price_usd", "-1", "a number from 1 to 100000"),
    ("street_price_date", "2025-13", "a date: YYYY"),
    ("street_price_date", "5 May 2025", "a date: YYYY"),
    ("street_price_date", "", "a date: YYYY"),
    ("street_price_source", "", "text without blanks"),
    ("spec_source", "", "text without blanks"),
    ("spec_source", "vendor datasheet, recalled", "__column__recalled"),
    ("memory_source", "", "a source for memory_cuda_mib"),
    ("memory_cuda_kind", "", "one of: read, recalled"),
    ("memory_cuda_kind", "recalled", "__column__recalled"),
    ("recalled", "some", "any of: specs, memory"),
    ("id", "H100", "lowercase letters"),
    ("id", "h100-pcie-80gb", "an id that stands once"),
    ("name", " H100", "text without blanks"),
    ("launch_date", "soon", "a date: YYYY"),
]


@pytest.mark.parametrize(("column", "value", "allowed"), GPU_CASES)
def test_a_wrong_cell_of_a_card(tmp_path: Path, column: str, value: str, allowed: str) -> None:
    data = copy_of_data(tmp_path)
    line = line_of("gpus.csv", "h100-sxm-80gb")
    set_cell(data, "gpus.csv", line=line, column=column, value=value)
    with pytest.raises(DataError) as caught:
        hardware_db.load_tables(data)
    problem = caught.value
    assert problem.file == "gpus.csv"
    if allowed.startswith("__column__"):
        # Two columns contradict each other; the mark is the one to mend.
        assert (problem.line, problem.column) == (line, allowed.removeprefix("__column__"))
    elif value == "h100-pcie-80gb":
        assert problem.line == line_of("gpus.csv", "h100-pcie-80gb")
        assert allowed in problem.allowed
    else:
        assert (problem.line, problem.column, problem.value) == (line, column, value)
        assert allowed in problem.allowed
    assert f"gpus.csv, line {problem.line}, column {problem.column}" in str(problem)


def test_a_price_without_a_price_is_refused(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    line = line_of("gpus.csv", "h100-sxm-80gb")
    set_cell(data, "gpus.csv", line=line, column="list_price_usd", value="")
    set_cell(data, "gpus.csv", line=line, column="list_price_date", value="2025-01")
    with pytest.raises(DataError, match=rf"line {line}, column list_price_date: '2025-01'.*empty where"):
        hardware_db.load_tables(data)


OTHER_CASES = [
    ("nodes.csv", "gpu_id", "h100", "an id of gpus.csv"),
    ("nodes.csv", "gpus_per_node", "eight", "a whole number|a number from 1 to 128"),
    ("nodes.csv", "intra_gbps_per_gpu_per_dir", "900", "half of intra_gbps_per_gpu_bidir"),
    ("nodes.csv", "id", "dgx-a100-320gb", "an id that stands once"),
    ("nodes.csv", "spec_source", "", "text"),
    ("nodes.csv", "price_source", "", "text"),
    ("cloud.csv", "gpu_id", "h100", "an id of gpus.csv"),
    ("cloud.csv", "price_kind", "spot", "one of: on_demand, marketplace, index"),
    ("cloud.csv", "catalog_date", "2025-20", "a date: YYYY"),
    ("cloud.csv", "usd_per_hour", "0", "a number from 0.001"),
    ("cloud.csv", "usd_per_gpu_hour", "59", "usd_per_hour / gpu_count"),
    ("cloud.csv", "source", "", "text"),
    ("cloud.csv", "provider", "", "text"),
]


@pytest.mark.parametrize(("name", "column", "value", "allowed"), OTHER_CASES)
def test_a_wrong_cell_of_a_node_or_an_offer(
    tmp_path: Path, name: str, column: str, value: str, allowed: str
) -> None:
    data = copy_of_data(tmp_path)
    set_cell(data, name, line=2, column=column, value=value)
    tables = hardware_db.load_tables(data)
    with pytest.raises(DataError, match=allowed) as caught:
        len(tables.nodes if name == "nodes.csv" else tables.offers)
    assert (caught.value.file, caught.value.column) == (name, column)
    assert caught.value.line == (3 if "stands once" in allowed else 2)


def test_an_offer_that_stands_twice_is_refused(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    text = (data / "cloud.csv").read_text(encoding="utf-8")
    lines = text.splitlines()
    (data / "cloud.csv").write_text("\n".join([*lines, lines[7]]) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"cloud.csv, line {len(lines) + 1}, column instance_type"):
        hardware_db.offers(data)


def test_an_offer_without_any_price_is_refused(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    for column in ("usd_per_hour", "spot_usd_per_hour"):
        set_cell(data, "cloud.csv", line=5, column=column, value="")
    with pytest.raises(DataError, match=r"cloud.csv, line 5, column usd_per_hour"):
        hardware_db.offers(data)


def test_offers_and_nodes_are_not_read_until_looked_at(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    (data / "cloud.csv").unlink()
    (data / "nodes.csv").unlink()
    tables = hardware_db.load_tables(data)
    assert tables.gpus
    with pytest.raises(DataError, match=r"cloud\.csv: .*a readable file"):
        len(tables.offers)
    with pytest.raises(DataError, match=r"nodes\.csv: .*a readable file"):
        tables.nodes[0]


def test_a_changed_header_is_refused(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    set_cell(data, "gpus.csv", line=1, column="bandwidth_gbps", value="bandwidth")
    with pytest.raises(DataError, match=r"gpus\.csv, line 1, column bandwidth: .*is bandwidth_gbps"):
        hardware_db.load_tables(data)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("runtime,task,layer\n", "'missing' is not allowed; the column n_rows"),
        ("runtime,task,layer,n_rows,low_frac,high_frac,made_on,how,note\n", "the last column is how"),
        ("", "'missing' is not allowed; the column runtime"),
    ],
    ids=["short", "long", "empty"],
)
def test_a_missing_or_extra_column_is_refused(tmp_path: Path, header: str, message: str) -> None:
    data = copy_of_data(tmp_path)
    (data / "bands.csv").write_text(header, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        hardware_db.load_tables(data)


def test_a_line_with_too_many_cells_is_refused(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    line = replace_text(data, "gpus.csv", "H100 PCIe", "H100, PCIe")
    with pytest.raises(DataError, match=rf"gpus\.csv, line {line}: '40 cells' is not allowed; 39 cells"):
        hardware_db.load_tables(data)


def test_an_open_quote_is_refused(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    replace_text(data, "nodes.csv", '"Epoch Hardware', '""Epoch Hardware')
    with pytest.raises(DataError, match=r"nodes\.csv, line 2"):
        hardware_db.nodes(data)


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    raw = (data / "gpus.csv").read_bytes()
    (data / "gpus.csv").write_bytes(raw[:300] + b"\xff" + raw[300:])
    with pytest.raises(DataError, match=r"gpus\.csv: 'byte 300' is not allowed; text in UTF-8"):
        hardware_db.load_tables(data)


MODEL_CASES = [
    ('"hidden_size": 4096', '"hidden_size": -4096', "hidden_size", "a whole number from 1"),
    ('"hidden_size": 4096', '"hidden_size": 4096.5', "hidden_size", "a whole number from 1"),
    ('"hidden_size": 4096', '"hidden": 4096', "hidden_size", "a whole number from 1"),
    ('"head_dim": 128', '"head_dim": "128"', "head_dim", "null or a whole number"),
    ('"mlp_gated": true', '"mlp_gated": 1', "mlp_gated", "true or false"),
    ('"released": "2023-02"', '"released": "early 2023"', "released", "a date: YYYY"),
    ('"extra": null', '"extra": []', "extra", "null or an object"),
]


@pytest.mark.parametrize(("old", "new", "column", "allowed"), MODEL_CASES)
def test_a_wrong_value_of_a_model(tmp_path: Path, old: str, new: str, column: str, allowed: str) -> None:
    data = copy_of_data(tmp_path)
    assert replace_text(data, "models.jsonl", old, new) == 1
    tables = hardware_db.load_tables(data)
    with pytest.raises(DataError, match=rf"models\.jsonl, line 1, column {column}: ") as caught:
        tables.models["huggyllama/llama-7b"]
    assert allowed in caught.value.allowed
    with pytest.raises(DataError):
        hardware_db.check_all(data)


def test_a_model_without_a_source_is_refused(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    assert replace_text(data, "models.jsonl", '"source": "', '"origin": "') == 1
    with pytest.raises(DataError, match=r"models\.jsonl, line 1, column source: 'missing'"):
        hardware_db.check_all(data)


def test_a_model_line_that_is_not_json_is_refused(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    replace_text(data, "models.jsonl", '"hidden_size": 4096,', '"hidden_size": 4096')
    with pytest.raises(DataError, match=r"models\.jsonl, line 1, column character \d+: .*JSON"):
        hardware_db.check_all(data)


def test_a_model_that_stands_twice_is_refused(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    text = (data / "models.jsonl").read_text(encoding="utf-8")
    (data / "models.jsonl").write_text(text + text.splitlines()[0] + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 275, column id: 'huggyllama/llama-7b'.*stands once"):
        hardware_db.load_tables(data)


def test_a_model_line_without_kind_and_id_is_refused(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    replace_text(data, "models.jsonl", '{"kind": "model", "id"', '{"id"')
    with pytest.raises(DataError, match=r"models\.jsonl, line 1, column id"):
        hardware_db.load_tables(data)


CONSTANT_CASES = [
    ("value = 195.0", 'value = "195"', "usable_nominal_base_mib.value", "a number"),
    ("value = 195.0", "value = nan", "usable_nominal_base_mib.value", "a number"),
    ("value = 195.0", "value = true", "usable_nominal_base_mib.value", "a number"),
    ("value = 195.0\n", "", "usable_nominal_base_mib.value", "a number"),
    ('unit = "MiB"', 'unit = ""', "usable_nominal_base_mib.unit", "text"),
    ('date = "2026-11-29"', 'date = "today"', "usable_nominal_base_mib.date", "a date"),
    ("n_rows = 21", "n_rows = 0", "usable_nominal_base_mib.n_rows", "a whole number from 1"),
    (
        "residual_max_frac = 0.0069",
        "residual_max_frac = 69",
        "usable_nominal_base_mib.residual_max_frac",
        "share",
    ),
    ("n_rows = 21", "rows = 21", "usable_nominal_base_mib.rows", "one of: value"),
]


@pytest.mark.parametrize(("old", "new", "column", "allowed"), CONSTANT_CASES)
def test_a_wrong_constant(tmp_path: Path, old: str, new: str, column: str, allowed: str) -> None:
    data = copy_of_data(tmp_path)
    line = replace_text(data, "constants.toml", old, new)
    with pytest.raises(DataError, match=allowed) as caught:
        hardware_db.load_tables(data)
    missing = new == ""
    assert (caught.value.file, caught.value.column) == ("constants.toml", column)
    assert caught.value.line == line - (1 if missing else 0)


def test_constants_that_are_not_toml_or_not_tables(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    line = replace_text(data, "constants.toml", "value = 195.0", "value = = 195.0")
    with pytest.raises(DataError, match=rf"constants\.toml, line {line}: "):
        hardware_db.load_tables(data)
    (data / "constants.toml").write_text("\nbase = 195\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"constants\.toml, line 2, column base: 195 is not allowed; a table"):
        hardware_db.load_tables(data)


BAND = "vllm,serve,device,42,0.97,1.04,2026-11-29,residuals of serving.jsonl\n"
BAND_CASES = [
    (BAND.replace("0.97", "0"), "low_frac"),
    (BAND.replace("1.04", "0.9"), "high_frac"),
    (BAND.replace("42", "0"), "n_rows"),
    (BAND.replace("2026-11-29", "now"), "made_on"),
    (BAND.replace("residuals of serving.jsonl", ""), "how"),
    (BAND + BAND, "layer"),
]


@pytest.mark.parametrize(("lines", "column"), BAND_CASES)
def test_a_wrong_band(tmp_path: Path, lines: str, column: str) -> None:
    data = copy_of_data(tmp_path)
    header = "runtime,task,layer,n_rows,low_frac,high_frac,made_on,how\n"
    (data / "bands.csv").write_text(header + lines, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        hardware_db.load_tables(data)
    assert (caught.value.file, caught.value.column) == ("bands.csv", column)
    assert caught.value.line == (3 if lines == BAND + BAND else 2)


def test_bands_are_read(tmp_path: Path) -> None:
    data = copy_of_data(tmp_path)
    header = "runtime,task,layer,n_rows,low_frac,high_frac,made_on,how\n"
    (data / "bands.csv").write_text(header + BAND + BAND.replace("vllm", "*"), encoding="utf-8")
    first, second = hardware_db.load_tables(data).bands
    assert (first.runtime, first.task, first.layer, first.n_rows) == ("vllm", "serve", "device", 42)
    assert (first.low_frac, first.high_frac) == (0.97, 1.04)
    assert (first.made_on, first.source) == ("2026-11-29", "residuals of serving.jsonl")
    assert second.runtime == "*"
