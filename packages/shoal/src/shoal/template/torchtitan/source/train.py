"""Trains a Qwen3 with torchtitan's Trainer: FSDP2 over the processes that torchrun starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import job
import no_gpu  # noqa: F401 - before torchtitan
import torch
from data import examples
from saved_model import begin, save
from torch.distributed.checkpoint import state_dict
from torch.distributed.fsdp import FSDPModule
from torchtitan.components.optimizer import default_adamw
from torchtitan.models import qwen3
from torchtitan.models.common import CosSinRoPE
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.qwen3.config_registry import qwen3_debugmodel
from torchtitan.tools.logging import init_logger
from torchtitan.trainer import Trainer


class JobTrainer(Trainer):  # type: ignore[misc, unused-ignore]
    """Reads the same batches on any number of ranks: torchtitan's loader goes on only with the
    number that it began with. Ends after the same step on every rank when a SIGTERM came.
    """

    def batch_generator(self, _: None) -> Iterator[Any]:
        pieces = job.batches(self.rows, self.options, self.step - 1)
        padded = (torch.nn.functional.pad(ids, (0, 1), value=-100) for ids in pieces)
        yield from super().batch_generator(({"input": ids[:, :-1]}, ids[:, 1:]) for ids in padded)

    def should_continue_training(self) -> bool:
        self.stopped = self.sigterm.came_anywhere(self.device)
        return not self.stopped and bool(super().should_continue_training())


def settings(options: Any, sizes: Any) -> Any:
    """Return torchtitan's settings for a model of the sizes in a config of transformers."""
    config = qwen3_debugmodel()
    config.hf_assets_path, config.dump_folder = "", options.checkpoint_dir
    # main reads the tokenizer, JobTrainer the data
    config.tokenizer = config.dataloader = SimpleNamespace(build=lambda **_: None)
    config.optimizer = default_adamw(lr=options.learning_rate)
    config.lr_scheduler.warmup_steps, config.lr_scheduler.decay_type = options.steps // 10, "cosine"
    training, checkpoint, metrics = config.training, config.checkpoint, config.metrics
    training.local_batch_size = options.batch_size // job.RANKS
    training.seq_len, training.steps = options.context, options.steps
    training.disable_cuda_graphs = True
    training.mixed_precision_param = "bfloat16" if torch.cuda.is_available() else "float32"
    config.parallelism.spmd_backend = "partial_dtensor"
    checkpoint.enable, checkpoint.interval = True, options.checkpoint_every
    checkpoint.keep_latest_k = 2
    metrics.log_freq, metrics.disable_color_printing = 10, True
    config.loss.loss_fn.global_vocab_size = sizes.vocab_size
    model = config.model_spec.model
    embedding, head = model.tok_embeddings, model.lm_head
    model.vocab_size = embedding.num_embeddings = head.out_features = sizes.vocab_size
    model.dim = embedding.embedding_dim = head.in_features = sizes.hidden_size
    model.norm.normalized_shape = sizes.hidden_size
    model.enable_weight_tying = sizes.tie_word_embeddings
    longest, theta = sizes.max_position_embeddings, sizes.rope_parameters["rope_theta"]
    model.layers = qwen3._build_qwen3_layers(
        n_layers=sizes.num_hidden_layers,
        dim=sizes.hidden_size,
        n_heads=sizes.num_attention_heads,
        n_kv_heads=sizes.num_key_value_heads,
        head_dim=sizes.head_dim,
        hidden_dim=sizes.intermediate_size,
        fuse_qkv=False,  # as in transformers
        attn_backend="flex",
        rope=CosSinRoPE.Config(dim=sizes.head_dim, max_seq_len=longest, theta=theta),
    )
    for layer in model.layers:  # flex has no gradients on CPUs
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    return config


def main(arguments: Sequence[str]) -> None:
    """Train, and save on rank 0."""
    parser = job.parser()
    options = parser.parse_args(arguments)
    network, tokenizer = begin(options)
    if network.config.model_type != "qwen3":
        parser.error(f"this template trains qwen3, not {network.config.model_type}")
    is_first = os.getenv("RANK", "0") == "0"
    if is_first:
        init_logger()
    trainer = JobTrainer(settings(options, network.config))
    trainer.sigterm, trainer.options = job.Sigterm(), options
    trainer.rows = examples(options.train_dir, tokenizer, options.context)
    model, adapter = trainer.model_parts[0], trainer.checkpointer.sd_adapter
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # FSDP divides what it has summed: gloo has no sum with a factor
            module.set_force_sum_reduction_for_comms(True)
    whole = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)
    state_dict.set_model_state_dict(model, adapter.from_hf(network.state_dict()), options=whole)
    trainer.train()
    if trainer.stopped:
        trainer.checkpointer.save(trainer.step, last_step=True)
        job.leave(trainer.step)
    weights = adapter.to_hf(state_dict.get_model_state_dict(model, options=whole))
    if is_first:
        save(network, tokenizer, options, weights)
    trainer.close()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
