"""A plain DDP script, as a user might write it for `torchrun`."""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    total = sum(parameter.sum().item() for parameter in model.parameters())
    sys.stdout.write(f"rank {dist.get_rank()} {total.hex()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
