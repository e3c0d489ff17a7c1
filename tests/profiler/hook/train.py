"""A plain training script, as a user might write it: prints every loss exactly and a digest of the weights."""

import argparse
import hashlib
import os
import signal
import sys
from typing import Any

import torch


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")


class Net(torch.nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(101, width)
        self.blocks = torch.nn.ModuleList(
            [
                torch.nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.1, batch_first=True)
                for _ in range(2)
            ]
        )
        self.head = torch.nn.Linear(width, 101)

    def forward(self, tokens: Any) -> Any:
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--raise-at", type=int, default=0)
    parser.add_argument("--kill-at", type=int, default=0)
    parser.add_argument("--leak", action="store_true")
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Net(given.width)
    teacher = Net(given.width).train()  # called first, trains nothing of its own
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    kept: list[Any] = []  # one batch's logits, or, leaking, all of them
    for step in range(1, given.steps + 1):
        if step == given.raise_at:
            raise ValueError("the data ran out")
        if step == given.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(given.accumulate):
            tokens = torch.randint(0, 101, (4, 24))
            with torch.no_grad():
                aim = teacher(tokens).argmax(-1)
            kept[given.leak * len(kept) :] = [logits := model(tokens)]
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), aim.flatten())
            loss.backward()
            say("loss", loss.item().hex())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        say("eval", model(torch.arange(24)[None]).sum().item().hex())
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    say("weights", digest.hexdigest(), "random", torch.rand(1).item().hex())
    say("modules", sorted(name for name in sys.modules if name.partition(".")[0] in {"profiler", "planner"}))


if __name__ == "__main__":
    main()
