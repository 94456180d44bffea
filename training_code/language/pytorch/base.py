"""The model that training starts from: a folder in Hugging Face's layout of Llama, or the
model.tar.gz that a job of this workload wrote.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from common.archive import file_sha256, unpack
from common.ranks import Ranks
from model import (
    CONFIG_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    Config,
    Transformer,
    read_config,
    shapes_of,
)
from tokenizer import Tokenizer, read_tokenizer

ARCHIVE = "model.tar.gz"
_NEEDED = (CONFIG_FILE, WEIGHTS_FILE)


@dataclass(frozen=True)
class Base:
    """A base model's shape, tokenizer, file of weights and digest of that."""

    config: Config
    tokenizer: Tokenizer
    weights: Path
    sha256: str

    @classmethod
    def read(cls, folder: Path) -> Base:
        """Read a base, but for its weights. Raise ValueError if it is no model of Llama's."""
        for name in _NEEDED:
            if not (folder / name).is_file():
                raise ValueError(
                    f"{folder} holds no base model: {name} is missing; put there {CONFIG_FILE} and"
                    f" {WEIGHTS_FILE}, or the {ARCHIVE} of a training job"
                )
        config, tokenizer = read_config(folder), read_tokenizer(folder)
        if not tokenizer.sha256 and config.vocab_size != tokenizer.size:
            raise ValueError(
                f"{folder} has no {TOKENIZER_FILE}, and a model of {config.vocab_size} tokens does"
                " not read bytes: put its file there"
            )
        if config.vocab_size < tokenizer.size:
            raise ValueError(
                f"{folder / TOKENIZER_FILE} has {tokenizer.size} tokens, and the model"
                f" {config.vocab_size}: put there the file that the model was trained with"
            )
        weights = folder / WEIGHTS_FILE
        _require_weights(config, weights)
        return cls(config, tokenizer, weights, file_sha256(weights))


def _require_weights(config: Config, file: Path) -> None:
    with torch.device("meta"):
        expected = {name: [*each.shape] for name, each in Transformer(config).state_dict().items()}
    shapes = shapes_of(file)
    if config.tie_word_embeddings:
        shapes.pop("lm_head.weight", None)  # some write the tied weight twice
    for name in sorted(expected.keys() | shapes.keys()):
        if shapes.get(name) != expected.get(name):
            raise ValueError(
                f"{file} is not the model that {CONFIG_FILE} describes: {name} has the shape"
                f" {shapes.get(name)}, not {expected.get(name)}"
            )


@contextmanager
def opened(channel: Path | None, ranks: Ranks) -> Iterator[Base | None]:
    """Yield the base in a channel, None without a channel. All ranks leave the block together.

    An archive is unpacked once on each host, as long as the block runs.
    """
    if channel is None or not (channel / ARCHIVE).is_file():
        yield Base.read(channel) if channel else None
        return
    folder = Path(tempfile.mkdtemp()) if ranks.leads_host else None
    try:
        if folder:
            unpack(channel / ARCHIVE, folder)
        folders = ranks.gather(str(folder))
        yield Base.read(Path(folders[ranks.rank - ranks.local_rank]))
        ranks.barrier()
    finally:
        if folder:
            shutil.rmtree(folder)
