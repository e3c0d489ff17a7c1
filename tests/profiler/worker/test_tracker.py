"""The tracker counts what PyTorch has, once, and nothing after its end."""

import torch
from torch.utils.checkpoint import checkpoint

from profiler.worker.storages import GRADIENT, INPUT, OPTIMIZER_STATE, PARAMETER, RECOMPUTED
from profiler.worker.tracker import Tracker, adopt_model, adopt_optimizer

FLOAT = 4


def test_a_tensor_counts_from_birth_to_death() -> None:
    with Tracker("cpu") as tracker:
        one = torch.ones(100)
        assert tracker.live_bytes == 100 * FLOAT
        two = one * 2
        assert tracker.live_bytes == 200 * FLOAT
        del one
        assert tracker.live_bytes == 100 * FLOAT
        del two
    assert tracker.live_bytes == 0


def test_views_and_in_place_operators_add_nothing() -> None:
    with Tracker("cpu") as tracker:
        one = torch.ones(10, 10)
        views = [one.view(100), one.t(), one[3:], one.detach(), one.unsqueeze(0).expand(5, 10, 10)]
        one.add_(1).mul_(2)
        torch.add(one, 1, out=one)
        assert tracker.live_bytes == 100 * FLOAT
        del one
        assert tracker.live_bytes == 100 * FLOAT
        views.clear()
        assert tracker.live_bytes == 0


def test_several_outputs_and_lists_are_seen() -> None:
    with Tracker("cpu") as tracker:
        values, places = torch.randn(8, 4).max(dim=1)
        assert tracker.live_bytes == 8 * FLOAT + 8 * 8
        parts = torch.randn(6).split(2)
        assert tracker.live_bytes == 8 * FLOAT + 8 * 8 + 6 * FLOAT
        squares = torch._foreach_mul(list(parts), 2.0)
        assert tracker.live_bytes == 8 * FLOAT + 8 * 8 + 12 * FLOAT
        del squares, parts, values, places
        assert tracker.live_bytes == 0


def test_resizing_is_followed_both_ways() -> None:
    with Tracker("cpu") as tracker:
        one = torch.ones(100)
        one.untyped_storage().resize_(0)
        assert tracker.live_bytes == 0
        one.untyped_storage().resize_(200 * FLOAT)
        assert tracker.live_bytes == 200 * FLOAT
        one.resize_(300)
        assert tracker.live_bytes == 300 * FLOAT
        del one
        assert tracker.live_bytes == 0
    assert torch.UntypedStorage.resize_.__name__ == "resize_"


def test_other_devices_are_left_alone() -> None:
    with Tracker("cpu") as tracker:
        kept = torch.ones(100, device="meta") * 2
        assert tracker.live_bytes == 0
        del kept


def test_shared_weights_count_once() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(10, 10, bias=False), torch.nn.Linear(10, 10, bias=False))
    model[1].weight = model[0].weight
    tracker = Tracker("cpu")
    adopt_model(tracker, model)
    assert tracker.live_bytes == 100 * FLOAT


def _step() -> tuple[Tracker, torch.nn.Module]:
    """Two steps of a small model; the second one is in the tracker's events."""
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    tracker = Tracker("cpu")
    adopt_model(tracker, model)
    with tracker.watching_modules(model), tracker:
        for number in (1, 2):
            tracker.start_step(number)
            tracker.enter_phase("forward")
            batch = torch.randn(11, 7)
            tracker.adopt(batch, INPUT)
            loss = model(batch).sum()
            tracker.enter_phase("backward")
            loss.backward()
            tracker.enter_phase("optimizer_step")
            optimizer.step()
            adopt_optimizer(tracker, optimizer, names)
            optimizer.zero_grad(set_to_none=True)
            tracker.enter_phase("rest")
            del batch, loss
    return tracker, model


def test_what_a_storage_was_for_is_known_in_the_end() -> None:
    tracker, model = _step()
    moments = {moment.phase: moment for moment in tracker.moments()}
    assert list(moments) == ["forward", "backward", "optimizer_step", "rest"]
    params = sum(parameter.numel() for parameter in model.parameters())

    def of(phase: str, kind: str | None) -> int:
        return sum(size for storage, size in moments[phase].alive if storage.kind == kind)

    for phase in moments:
        assert of(phase, PARAMETER) == params * FLOAT
        assert of(phase, OPTIMIZER_STATE) == 2 * params * FLOAT + 4 * FLOAT
    assert of("optimizer_step", GRADIENT) == params * FLOAT
    assert of("forward", GRADIENT) == 0
    assert of("forward", INPUT) == 11 * 7 * FLOAT
    # fullest when tanh has its input and its output; the input is not kept, so the last linear adds less
    assert of("forward", None) == 2 * 11 * 5 * FLOAT
    assert sum(size for _, size in moments["forward"].alive) == moments["forward"].bytes


def test_the_module_that_made_a_storage_is_known() -> None:
    tracker, _ = _step()
    forward = next(moment for moment in tracker.moments() if moment.phase == "forward")
    made = {(storage.module, storage.op) for storage, _ in forward.alive if storage.kind is None}
    assert made == {("0", "aten::addmm"), ("1", "aten::tanh")}
    owners = {storage.module for storage, _ in forward.alive if storage.kind == OPTIMIZER_STATE}
    assert owners == {"0.weight", "0.bias", "2.weight", "2.bias"}


class Checkpointed(torch.nn.Module):  # type: ignore[misc]  # torch is not followed
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = checkpoint(lambda y: self.inner(y).tanh().tanh(), x, use_reentrant=False)
        return answer


def test_recomputing_leaves_no_module_open() -> None:
    """Checkpointing stops a recomputation by an exception in the middle of a module."""
    model = Checkpointed()
    tracker = Tracker("cpu")
    with tracker.watching_modules(model), tracker:
        model(torch.randn(3, 4, requires_grad=True)).sum().backward()
        assert tracker._modules == []
        tracker.enter_phase("after")
        kept = torch.ones(2)
    assert next(s for s, _ in tracker.alive() if s.phase == "after").module == ""
    del kept


def test_the_backward_pass_knows_whose_operator_it_differentiates() -> None:
    """A product's gradient belongs to the module whose forward pass made the product, in either layer."""
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    with Tracker("cpu") as tracker, tracker.watching_modules(model):
        tracker.start_step(1)
        loss = model(torch.ones(4, 7)).sum()
        tracker.enter_phase("backward")
        loss.backward()
        made = {(s.module, s.shape) for s, _ in tracker.alive() if s.phase == "backward"}
        seen = {
            (change.storage.module, change.storage.op, change.storage.detail)
            for change in tracker._changes
            if change.storage is not None and change.storage.phase == "backward"
        }
    assert {("0", (5, 7)), ("2", (3, 5))} <= made
    assert {("1", "aten::tanh_backward", ""), ("2", "aten::mm", "")} <= seen


def test_what_is_computed_again_is_told_from_gradients() -> None:
    layer = torch.nn.Tanh()
    model = torch.nn.Sequential(layer)
    with Tracker("cpu") as tracker, tracker.watching_modules(model):
        tracker.start_step(1)
        loss = checkpoint(model, torch.ones(9, requires_grad=True), use_reentrant=False).sum()
        tracker.enter_phase("backward")
        loss.backward()
        seen = {
            (change.storage.op, change.storage.module, change.storage.detail)
            for change in tracker._changes
            if change.storage is not None and change.storage.phase == "backward"
        }
    assert ("aten::tanh", "0", RECOMPUTED) in seen
    assert ("aten::tanh_backward", "0", "") in seen
