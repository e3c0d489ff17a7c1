"""Names of cards to ids of the tables."""

import pytest

from hardware_db import load_tables
from planner.units import GIB
from profiler.gpu_names import PATTERNS, gpu_id_for

KNOWN = [
    ("NVIDIA H100 80GB HBM3", 79.6, "h100-sxm-80gb"),
    ("NVIDIA H100 PCIe", 79.6, "h100-pcie-80gb"),
    ("NVIDIA H100 NVL", 93.6, "h100-nvl-94gb"),
    ("NVIDIA H200", 140.4, "h200-sxm-141gb"),
    ("NVIDIA H200 NVL", 140.4, "h200-nvl-141gb"),
    ("NVIDIA GH200 480GB", 95.6, "gh200-96gb"),
    ("NVIDIA GH200 144G HBM3e", 140.0, "gh200-144gb"),
    ("NVIDIA B200", 179.1, "b200-sxm-180gb"),
    ("NVIDIA A100-SXM4-80GB", 80.0, "a100-sxm-80gb"),
    ("NVIDIA A100-SXM4-40GB", 40.0, "a100-sxm-40gb"),
    ("NVIDIA A100-PCIE-40GB", 40.0, "a100-pcie-40gb"),
    ("NVIDIA A100 80GB PCIe", 80.0, "a100-pcie-80gb"),
    ("NVIDIA A10G", 22.5, "a10g-24gb"),
    ("NVIDIA A10", 22.5, "a10-24gb"),
    ("Tesla T4", 15.0, "t4-16gb"),
    ("Tesla V100-SXM2-16GB", 15.8, "v100-sxm-16gb"),
    ("Tesla V100-SXM2-32GB", 31.7, "v100-sxm-32gb"),
    ("NVIDIA L4", 22.5, "l4-24gb"),
    ("NVIDIA L40S", 44.9, "l40s-48gb"),
    ("NVIDIA L40", 44.9, "l40-48gb"),
    ("NVIDIA RTX A6000", 47.5, "rtx-a6000-48gb"),
    ("NVIDIA RTX 6000 Ada Generation", 48.0, "rtx-6000-ada-48gb"),
    ("Quadro RTX 6000", 23.6, "quadro-rtx-6000-24gb"),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 95.6, "rtx-pro-6000-blackwell-workstation-96gb"),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 95.6, "rtx-pro-6000-blackwell-max-q-96gb"),
    ("NVIDIA GeForce RTX 5090", 31.8, "rtx-5090-32gb"),
    ("NVIDIA GeForce RTX 4090", 24.0, "rtx-4090-24gb"),
    ("NVIDIA GeForce RTX 4070 Ti SUPER", 16.0, "rtx-4070-ti-super-16gb"),
    ("NVIDIA GeForce RTX 4070 Ti", 12.0, "rtx-4070-ti-12gb"),
    ("NVIDIA GeForce RTX 4060 Laptop GPU", 8.0, None),
    ("NVIDIA GeForce RTX 3050 6GB Laptop GPU", 6.0, "rtx-3050-laptop-6gb"),
    ("NVIDIA GeForce RTX 3080", 10.0, "rtx-3080-10gb"),
    ("NVIDIA GeForce RTX 3080", 20.0, "rtx-3080-20gb"),
    ("NVIDIA GeForce RTX 3080 Ti", 12.0, "rtx-3080-ti-12gb"),
    ("NVIDIA GeForce RTX 2080 Ti", 11.0, "rtx-2080-ti-11gb"),
    ("NVIDIA GeForce RTX 2080 SUPER", 8.0, None),
    ("NVIDIA GeForce RTX 4060 Ti", 8.0, None),
    ("NVIDIA GB10", None, "gb10-128gb"),
    ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4.8, None),
    ("NVIDIA A100-SXM4-40GB", None, None),
    ("NVIDIA Something New", 24.0, None),
    ("", None, None),
]


@pytest.mark.parametrize(("name", "gib", "expected"), KNOWN)
def test_a_name_and_a_size_give_the_card(name: str, gib: float | None, expected: str | None) -> None:
    assert gpu_id_for(name, None if gib is None else round(gib * GIB)) == expected


def test_every_id_is_in_the_tables() -> None:
    ids = {gpu_id.partition("@")[0] for _, ids in PATTERNS for gpu_id in ids}
    assert ids - set(load_tables().gpus) == set()


def test_every_card_of_this_maker_can_be_found() -> None:
    ids = {gpu_id.partition("@")[0] for _, ids in PATTERNS for gpu_id in ids}
    cards = {gpu.id for gpu in load_tables().gpus.values() if gpu.vendor == "NVIDIA"}
    assert cards - ids == set()
