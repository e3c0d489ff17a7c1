"""`python -m benchmarks.accept_exports FOLDER` writes every export of the test cases; `--check NAME` has one read.

The libraries here don't install beside ours. Write the files with this project's Python, then run this same file
with the Python of an environment that holds the library:

    python -m benchmarks.accept_exports files
    /path/to/that/python benchmarks/accept_exports.py files --check deepspeed

Checks: deepspeed, torchtune, axolotl, llama_factory, skypilot, kubernetes, triton, vllm. Each prints how many files
the library read and what it refused; docs/exports.md holds the answers with versions and dates.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Check = Callable[[Path], None]


def write(folder: Path) -> int:
    """Every export of every case into a folder a target; how many."""
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.exports.catalog import offered  # noqa: PLC0415
    from tests.planner.exports.cases import CASES, planned  # noqa: PLC0415

    count = 0
    for name in CASES:
        for file in offered(planned(name), load_tables())[0]:
            path = folder / file.target / f"{name}{Path(file.file_name).suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text, encoding="utf-8")
            count += 1
    return count


def _yaml(path: Path) -> Any:
    import yaml  # noqa: PLC0415

    return yaml.safe_load(path.read_text(encoding="utf-8"))


def deepspeed(path: Path) -> None:
    """`DeepSpeedConfig` on one rank: it checks batch sizes, stages and offload devices."""
    from deepspeed.runtime.config import DeepSpeedConfig  # noqa: PLC0415

    values = json.loads(path.read_text(encoding="utf-8"))
    batch = values["train_micro_batch_size_per_gpu"] * values["gradient_accumulation_steps"]
    config = DeepSpeedConfig(values | {"train_batch_size": batch})
    assert config.zero_optimization_stage == values["zero_optimization"]["stage"]  # noqa: S101


def torchtune(path: Path) -> None:
    """Every component exists and takes the arguments: torchtune's own `config.validate`, on the meta device."""
    from omegaconf import OmegaConf  # noqa: PLC0415
    from torchtune import config  # noqa: PLC0415

    config.validate(OmegaConf.load(path))


def axolotl(path: Path) -> None:
    """The schema of its configuration."""
    from axolotl.utils.schemas.config import AxolotlInputConfig  # noqa: PLC0415

    AxolotlInputConfig(**_yaml(path))


def llama_factory(path: Path) -> None:
    """Its argument classes, none of the keys unknown."""
    from llamafactory.hparams import data_args, finetuning_args, generating_args, model_args  # noqa: PLC0415
    from transformers import HfArgumentParser, TrainingArguments  # noqa: PLC0415

    classes = [
        model_args.ModelArguments,
        data_args.DataArguments,
        TrainingArguments,
        finetuning_args.FinetuningArguments,
        generating_args.GeneratingArguments,
    ]
    HfArgumentParser(classes).parse_dict(_yaml(path) | {"use_cpu": True})


def skypilot(path: Path) -> None:
    """The JSON schema of a task."""
    import jsonschema  # noqa: PLC0415
    from sky.utils import schemas  # noqa: PLC0415

    jsonschema.validate(_yaml(path), schemas.get_task_schema())


def kubernetes(path: Path) -> None:
    """The API's own schemas, strictly."""
    import kubernetes_validate  # noqa: PLC0415
    import yaml  # noqa: PLC0415

    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        kubernetes_validate.validate(document, "1.31", strict=True)


def triton(path: Path) -> None:
    """The protobuf message of Triton's model configuration."""
    from google.protobuf import text_format  # noqa: PLC0415
    from tritonclient.grpc import model_config_pb2  # noqa: PLC0415

    text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())


def vllm(path: Path) -> None:
    """vLLM's own command line parser."""
    import shlex  # noqa: PLC0415

    words = shlex.split(path.read_text(encoding="utf-8").replace("\\\n", " "))
    if words[0] != "vllm":
        raise Unasked(words[0])
    from vllm import platforms  # noqa: PLC0415

    if not platforms.current_platform.device_type:  # no GPU here, and the parser asks for one
        from vllm.platforms.cpu import CpuPlatform  # noqa: PLC0415

        platforms._current_platform = CpuPlatform()  # noqa: SLF001
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415

    EngineArgs.add_cli_args(FlexibleArgumentParser()).parse_args(["--model", *words[2:]])


class Unasked(Exception):  # noqa: N818 - no error: the file is another program's
    """A file of another program in the same folder."""


CHECKS: dict[str, tuple[str, Check]] = {
    "deepspeed": ("deepspeed", deepspeed),
    "torchtune": ("torchtune", torchtune),
    "axolotl": ("axolotl", axolotl),
    "llama_factory": ("llama_factory", llama_factory),
    "skypilot": ("skypilot", skypilot),
    "kubernetes": ("kubernetes", kubernetes),
    "triton": ("triton", triton),
    "vllm": ("serve", vllm),
}
"""Name -> folder of its files, and the check."""


def main() -> int:
    """Write the files, or have them read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", choices=sorted(CHECKS))
    options = parser.parse_args()
    if options.check is None:
        print(f"{write(options.folder)} files in {options.folder}")
        return 0
    target, check = CHECKS[options.check]
    paths = sorted((options.folder / target).iterdir())
    refused = asked = 0
    for path in paths:
        try:
            check(path)
        except Unasked:
            continue
        except Exception as problem:  # noqa: BLE001 - what the library says is the result
            refused += 1
            print(f"{path.name}: {type(problem).__name__}: {problem}")
        asked += 1
    print(f"{options.check}: {asked - refused} of {asked} files read")
    return refused and 1


if __name__ == "__main__":
    sys.exit(main())
