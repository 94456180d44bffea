"""The same loop with Hugging Face Accelerate, as in its quick tour.

`torchrun --nproc-per-node 2 hugging_face.py`
"""

from __future__ import annotations

from setting import Clock, parse, pin, report

pin()

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from example import Mnist, Net, accuracy, endless
from torch.nn import functional
from torch.utils.data import DataLoader


def main() -> None:
    """Run one rank."""
    setting = parse()
    accelerator = Accelerator(cpu=True)
    set_seed(setting.seed)
    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    loader = DataLoader(Mnist(setting.data, "train"), batch_size=setting.batch, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches = endless(loader)
    clock = Clock(setting, accelerator.num_processes)
    model.train()
    for _ in clock.steps():
        data, target = next(batches)
        optimizer.zero_grad()
        accelerator.backward(functional.nll_loss(model(data), target))
        optimizer.step()
    if accelerator.is_main_process:
        test_accuracy = accuracy(accelerator.unwrap_model(model), setting.data, setting.tested)
        report(images_per_s=clock.images_per_s, accuracy=test_accuracy)
    accelerator.end_training()


if __name__ == "__main__":
    main()
