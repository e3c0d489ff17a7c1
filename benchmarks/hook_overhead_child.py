"""The training process of `benchmarks.hook_overhead`: `STEPS ROUNDS` on the command line, one JSON line out."""

import json
import sys
import time
from importlib import import_module
from typing import Any

WIDTH, LAYERS, TOKENS, ROWS, VOCABULARY = 128, 4, 64, 8, 1000


def main(steps: int, rounds: int) -> None:
    """Train in turns and print every step's time."""
    torch: Any = import_module("torch")  # only this process loads it
    profiler: Any = import_module("profiler")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [
        torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        for _ in range(LAYERS)
    ]
    model = torch.nn.Sequential(
        torch.nn.Embedding(VOCABULARY, WIDTH), *layers, torch.nn.Linear(WIDTH, VOCABULARY)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, VOCABULARY, (ROWS, TOKENS))

    def train() -> list[float]:
        times = []
        for _ in range(steps):
            began_s = time.perf_counter()
            loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            times.append(time.perf_counter() - began_s)
        return times

    train()
    found: dict[str, Any] = {"bare": [], "watched": [], "hook_s": 0.0, "steps_s": 0.0}
    for number in range(rounds):
        for watched in (False, True) if number % 2 else (True, False):
            if not watched:
                found["bare"] += train()
                continue
            with profiler.watch_training(model, optimizer) as seen:
                found["watched"] += train()
            found["hook_s"] += seen.report.overhead.hook_s
            found["steps_s"] += seen.report.overhead.steps_s
    found["torch"] = torch.__version__
    found["params"] = sum(one.numel() for one in model.parameters())
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
