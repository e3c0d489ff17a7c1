"""Workspaces by worked examples."""

from planner.units import MIB
from profiler.trace import workspaces


def test_a_handles_workspace_by_generation() -> None:
    """`:4096:2:16:8` is 2 x 4096 KiB and 8 x 16 KiB, the 8519680 bytes seen on an A10G (pytorch issue 95668)."""
    assert workspaces.cublas((8, 6)).bytes == (8_519_680,)
    assert workspaces.cublas((9, 0)).bytes == workspaces.cublas((10, 0)).bytes == (32 * MIB,)
    assert workspaces.cublas((12, 0)).bytes == (8_519_680,)


def test_flash_backward_of_grouped_keys() -> None:
    """Llama-3-8B at 4096 positions: 32 heads of 128, 8 of them for keys."""
    found = workspaces.flash_backward((1, 32, 4096, 128), 4096, 8, 2)
    sums = 4 * 32 * 4096
    query_gradient = 4 * 4096 * 32 * 128
    expanded = 2 * 4096 * 32 * 128
    assert found.bytes == (sums, query_gradient, expanded, expanded)
    assert len(workspaces.flash_backward((1, 32, 4096, 128), 4096, 32, 2).bytes) == 2


def test_flash_backward_rounds_positions_and_heads() -> None:
    found = workspaces.flash_backward((2, 3, 100, 80), 100, 3, 2)
    assert found.bytes == (4 * 2 * 3 * 128, 4 * 2 * 128 * 3 * 96)
    wide = workspaces.flash_backward((1, 1, 128, 130), 128, 1, 2)
    assert wide.bytes[1] == 4 * 128 * 192


def test_flash_backward_of_documents_has_room_for_a_block_more_of_each() -> None:
    found = workspaces.flash_backward_by_lengths(1000, 8, 64, documents=3, key_heads=2, item_bytes=2)
    rows = 1000 + 3 * 128
    assert found.bytes == (4 * 8 * rows, 4 * rows * 8 * 64, *((2 * 1000 * 8 * 64,) * 2))
    assert len(workspaces.flash_backward_by_lengths(8, 4, 64, 1, 4, 2).bytes) == 2


def test_cublaslt_works_in_the_handles_workspace() -> None:
    found = workspaces.cublaslt()
    assert found.bytes == ()
    assert "getCUDABlasLtWorkspace" in found.source


def test_every_entry_names_its_source() -> None:
    entries = (
        workspaces.cublas((8, 0)),
        workspaces.cublaslt(),
        workspaces.flash_backward((1, 1, 1, 8), 1, 1, 2),
        workspaces.flash_backward_by_lengths(1, 1, 8, 1, 1, 2),
        workspaces.efficient_backward((1, 1, 1, 8), half=True),
        workspaces.cudnn_backward((1, 1, 1, 8)),
        workspaces.embedding_backward(1),
        workspaces.safe_softmax(1, 2),
    )
    assert all(one.source.startswith("pytorch/aten/") and ": " in one.source for one in entries)
    estimates = {one.name for one in entries if one.estimate}
    assert estimates == {
        *("efficient_backward_workspace", "cudnn_backward_workspace", "embedding_backward_workspace")
    }


def test_few_indices_need_no_sorting() -> None:
    assert workspaces.embedding_backward(3072).bytes == ()
    assert workspaces.embedding_backward(3073).bytes == (8 * 3073,) * 3


def test_a_safe_softmax_holds_scores_twice_and_a_mask() -> None:
    assert workspaces.safe_softmax(32 * 100 * 100, 4).bytes == (4 * 320_000, 320_000)


def test_what_is_not_read_from_a_source_says_so() -> None:
    assert workspaces.cudnn_backward((1, 1, 1, 1)).estimate
    assert workspaces.efficient_backward((1, 1, 1, 1), half=True).estimate
    assert not workspaces.cublas((8, 0)).estimate
    for one in (workspaces.cublas((8, 0)), workspaces.cudnn_backward((1, 1, 1, 1))):
        assert one.source.startswith("pytorch/aten/")
