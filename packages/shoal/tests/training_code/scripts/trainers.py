"""Answers a question of test_trainers.py with a workload's modules: QUESTION ARGUMENT... OUT."""

from __future__ import annotations

import importlib
import json
import math
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

data: Any = importlib.import_module("data")
saved_model: Any = importlib.import_module("saved_model")


def network(folder: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def difference(first: str, second: str) -> dict[str, float]:
    one, other = network(first).state_dict(), network(second).state_dict()
    return {"largest": max(float((one[name] - other[name]).abs().max()) for name in one)}


def options(family: str, context: int) -> Namespace:
    folder = Path("few-model")
    return Namespace(base_dir=None, family=family, context=context, seed=1, model_dir=folder)


def base(family: str, folder: str, parts: str) -> dict[str, int]:
    """Write a model in so many files; return how many there are."""
    model, tokenizer = saved_model.begin(options(family, 64))
    size = sum(weight.nbytes for weight in model.parameters()) / int(parts)
    model.save_pretrained(folder, max_shard_size=math.ceil(size * 1.1))
    tokenizer.save_pretrained(folder)
    return {"files": len([*Path(folder).glob("*.safetensors")])}


def loss(folder: str) -> dict[str, float]:
    """Return the loss of conversations: TRL's, the evaluation's, and by the formula from text."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    model, tokenizer = saved_model.begin(options("qwen3", 512))
    model.double()  # float32 has 5e-7 between two numbers of this size
    some = [{"messages": each} for each in data.conversations(Path(folder))[:4]]
    Path("few").mkdir()
    Path("few", "few.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in some))
    given = {"assistant_only_loss": True, "max_length": 512, "report_to": "none", "use_cpu": True}
    settings = SFTConfig(output_dir="out", per_device_train_batch_size=4, **given)
    rows = Dataset.from_list(some)
    trainer = SFTTrainer(model, settings, train_dataset=rows, processing_class=tokenizer)
    of_trl = trainer.compute_loss(model, next(iter(trainer.get_train_dataloader())))
    total, count = 0.0, 0
    for each in some:
        question, answer = (message["content"] for message in each["messages"])
        prompt = tokenizer(f"<|user|>{question}<|assistant|>")["input_ids"]
        ids = [*prompt, *tokenizer(f"{answer}<|end|>")["input_ids"]]
        logits = model(torch.tensor([ids])).logits[0]
        logs = logits - logits.exp().sum(-1, keepdim=True).log()
        learned = range(len(prompt), len(ids))
        total -= sum(float(logs[place - 1, ids[place]].detach()) for place in learned)
        count += len(learned)
    saved_model.save(model, tokenizer, options("qwen3", 512))
    evaluated = saved_model.measured(Path("few-model"), Path("few"))["eval_loss"]
    return {"trl": float(of_trl.detach()), "evaluated": evaluated, "plain": total / count}


def adapter(base: str, folder: str, merged: str) -> dict[str, float]:
    from peft import PeftModel  # which is not where ZeRO-3 runs

    ids = torch.arange(5, 40)[None]
    with torch.no_grad():
        plain, served = network(base)(ids).logits, network(merged)(ids).logits
        adapted = PeftModel.from_pretrained(network(base), folder)(ids).logits
    others = {"to_merged": served, "to_base": plain}
    return {name: float((adapted - other).abs().max()) for name, other in others.items()}


if __name__ == "__main__":
    question, *arguments, out = sys.argv[1:]
    Path(out).write_text(json.dumps(globals()[question](*arguments)))
