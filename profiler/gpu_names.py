"""From the driver's name of a card to the card's id in the tables, for "use this machine"."""

import re
from typing import Final

from planner.units import GIB

TOLERANCE_FRAC: Final = 0.15
"""A card shows less than its box says: up to a tenth for ECC and firmware."""

_GB: Final = re.compile(r"-(\d+)gb$")

# Pattern on the driver's name without its maker, in lower case, and the ids it may mean. The first match
# counts; among several ids the size of the memory decides.
PATTERNS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (r"\bmig\b", ()),
    (
        r"laptop|mobile|max-q design",
        ("rtx-5060-laptop-8gb@5060", "rtx-3050-laptop-6gb@3050", "rtx-4080-laptop-12gb@4080"),
    ),
    (r"^gb300\b", ("gb300-nvl72-288gb",)),
    (r"^gb200\b", ("gb200-nvl72-186gb",)),
    (r"^b300\b", ("b300-sxm-270gb",)),
    (r"^b200\b", ("b200-sxm-180gb",)),
    (r"^b100\b", ("b100-sxm-192gb",)),
    (r"^gh200\b", ("gh200-96gb", "gh200-144gb")),
    (r"^h200 nvl", ("h200-nvl-141gb",)),
    (r"^h200\b", ("h200-sxm-141gb",)),
    (r"^h100 nvl", ("h100-nvl-94gb",)),
    (r"^h100 pcie", ("h100-pcie-80gb",)),
    (r"^h100\b", ("h100-sxm-80gb", "h100-sxm-96gb")),
    (r"^h800\b", ("h800-sxm-80gb",)),
    (r"^h20\b", ("h20-sxm-96gb",)),
    (r"^a800-sxm", ("a800-sxm-80gb",)),
    (r"^a100-sxm", ("a100-sxm-80gb", "a100-sxm-40gb")),
    (r"^a100-pcie|^a100 .*pcie", ("a100-pcie-80gb", "a100-pcie-40gb")),
    (r"^a30\b", ("a30-24gb",)),
    (r"^a40\b", ("a40-48gb",)),
    (r"^a10g\b", ("a10g-24gb",)),
    (r"^a10\b", ("a10-24gb",)),
    (r"^a16\b", ("a16-16gb",)),
    (r"^a2\b", ("a2-16gb",)),
    (r"^l40s\b", ("l40s-48gb",)),
    (r"^l40\b", ("l40-48gb",)),
    (r"^l20\b", ("l20-48gb",)),
    (r"^l4\b", ("l4-24gb",)),
    (r"^t4\b", ("t4-16gb",)),
    (r"^v100-sxm", ("v100-sxm-16gb", "v100-sxm-32gb")),
    (r"^v100-pcie", ("v100-pcie-16gb", "v100-pcie-32gb")),
    (r"^p100-pcie", ("p100-pcie-16gb",)),
    (r"^p40\b", ("p40-24gb",)),
    (r"^rtx pro 6000 blackwell server", ("rtx-pro-6000-blackwell-server-96gb",)),
    (r"^rtx pro 6000 blackwell max-q", ("rtx-pro-6000-blackwell-max-q-96gb",)),
    (r"^rtx pro 6000 blackwell workstation", ("rtx-pro-6000-blackwell-workstation-96gb",)),
    (r"^rtx pro 4500 blackwell", ("rtx-pro-4500-blackwell-32gb",)),
    (r"^rtx 6000 ada", ("rtx-6000-ada-48gb",)),
    (r"^rtx 5000 ada", ("rtx-5000-ada-32gb",)),
    (r"^rtx 4000 ada", ("rtx-4000-ada-20gb",)),
    (r"^rtx a6000\b", ("rtx-a6000-48gb",)),
    (r"^rtx a5000\b", ("rtx-a5000-24gb",)),
    (r"^rtx a4000\b", ("rtx-a4000-16gb",)),
    (r"^(quadro )?rtx 8000$", ("quadro-rtx-8000-48gb",)),
    (r"^(quadro )?rtx 6000$", ("quadro-rtx-6000-24gb",)),
    (r"^rtx 5090 d\b", ("rtx-5090d-32gb",)),
    (r"^rtx 5090\b", ("rtx-5090-32gb",)),
    (r"^rtx 5080\b", ("rtx-5080-16gb",)),
    (r"^rtx 5070 ti\b", ("rtx-5070-ti-16gb",)),
    (r"^rtx 5060 ti\b", ("rtx-5060-ti-16gb",)),
    (r"^rtx 4090 d\b", ("rtx-4090d-48gb",)),
    (r"^rtx 4090\b", ("rtx-4090-24gb",)),
    (r"^rtx 4080 super\b", ("rtx-4080-super-16gb",)),
    (r"^rtx 4080\b", ("rtx-4080-16gb",)),
    (r"^rtx 4070 ti super\b", ("rtx-4070-ti-super-16gb",)),
    (r"^rtx 4070 ti\b", ("rtx-4070-ti-12gb",)),
    (r"^rtx 4070\b(?! super)", ("rtx-4070-12gb",)),
    (r"^rtx 4060 ti\b", ("rtx-4060-ti-16gb",)),
    (r"^rtx 4060\b", ("rtx-4060-8gb",)),
    (r"^rtx 3090 ti\b", ("rtx-3090-ti-24gb",)),
    (r"^rtx 3090\b", ("rtx-3090-24gb",)),
    (r"^rtx 3080 ti\b", ("rtx-3080-ti-12gb",)),
    (r"^rtx 3080\b", ("rtx-3080-10gb", "rtx-3080-20gb")),
    (r"^rtx 3070\b(?! ti)", ("rtx-3070-8gb",)),
    (r"^rtx 3060\b(?! ti)", ("rtx-3060-12gb",)),
    (r"^rtx 2080 ti\b", ("rtx-2080-ti-11gb", "rtx-2080-ti-22gb")),
    (r"^rtx 2080\b(?! super)", ("rtx-2080-8gb",)),
    (r"^titan rtx", ("titan-rtx-24gb",)),
    (r"^gb10\b", ("gb10-128gb",)),
    (r"^orin\b|^jetson agx orin", ("jetson-agx-orin-64gb",)),
    (r"^gtx 1050 ti\b", ("gtx-1050-ti-4gb",)),
    (r"^940m\b", ("geforce-940m",)),
)
_MAKER: Final = re.compile(r"^(nvidia\s+)?(graphics device\s+)?(tesla\s+|geforce\s+)?")


def gpu_id_for(name: str, memory_bytes: int | None) -> str | None:
    """The id of a card by the driver's name and memory, None if the tables have no such card.

    Args:
        name: As the driver gives it, such as `NVIDIA H100 80GB HBM3`.
        memory_bytes: What the driver shows in all, None if it does not say.
    """
    short = _MAKER.sub("", name.strip().lower())
    for pattern, ids in PATTERNS:
        if re.search(pattern, short):
            return _by_memory(_for_series(ids, short), memory_bytes)
    return None


def _for_series(ids: tuple[str, ...], short: str) -> tuple[str, ...]:
    """Ids that are meant for one series only (`id@series`) where the name has it; others as they are."""
    chosen = []
    for text in ids:
        gpu_id, _, series = text.partition("@")
        if not series or re.search(rf"\b{series}\b", short):
            chosen.append(gpu_id)
    return tuple(chosen)


def _by_memory(ids: tuple[str, ...], memory_bytes: int | None) -> str | None:
    if memory_bytes is None:
        return ids[0] if len(ids) == 1 else None
    fitting = [(gap, gpu_id) for gpu_id in ids if (gap := _gap(gpu_id, memory_bytes)) <= TOLERANCE_FRAC]
    return min(fitting)[1] if fitting else None


def _gap(gpu_id: str, memory_bytes: int) -> float:
    found = _GB.search(gpu_id)
    return 0.0 if found is None else abs(memory_bytes / GIB / int(found.group(1)) - 1)
