"""Text to learn from, as one row of bytes that is cut into sequences.

A batch depends on seed and step alone, not on the number of ranks, so that a step is all that a run
needs to go on.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from config import END_OF_TEXT
from torch import Tensor

_SEPARATOR = bytes([END_OF_TEXT])


def read_channel(folder: Path) -> bytes:
    """Return every `*.txt` below a folder, each after a zero byte, in the order of their names.

    Raise ValueError if there are none, or for a file that is no text.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    if lines := next(folder.rglob("*.jsonl"), None):
        raise ValueError(f"{lines} is left to the trainers: a document here is a *.txt")
    texts = map(_text, sorted(each for each in folder.rglob("*.txt") if each.is_file()))
    row = b"".join(_SEPARATOR + text for text in texts if text)
    if not row:
        raise ValueError(f"{folder} has no *.txt with text")
    return row


def _text(file: Path) -> bytes:
    text = file.read_bytes()
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 at byte {error.start}: convert it") from error
    if _SEPARATOR in text:
        raise ValueError(f"{file} has a zero byte, which ends a text here: remove it")
    return text


def as_tokens(row: bytes) -> Tensor:
    """Return bytes as a tensor of them, uint8."""
    return torch.frombuffer(bytearray(row), dtype=torch.uint8)


@dataclass(frozen=True)
class Corpus:
    """The bytes of a channel, cut into sequences of `context` tokens and the one after each.

    In each epoch the cuts lie elsewhere, and the sequences are in another order.
    """

    tokens: Tensor
    """uint8 (bytes of the text)."""
    context: int
    seed: int
    sha256: str

    @classmethod
    def read(cls, folder: Path, context: int, seed: int) -> "Corpus":
        """Read a channel. Raise ValueError if it is too short for a single sequence."""
        row = read_channel(folder)
        if len(row) < 2 * context:
            raise ValueError(
                f"{folder} has {len(row)} tokens of text, --context {context} needs {2 * context}"
            )
        return cls(as_tokens(row), context, seed, hashlib.sha256(row).hexdigest())

    @property
    def sequences(self) -> int:
        """Sequences in an epoch: one fewer than fit, because the first cut moves."""
        return len(self.tokens) // self.context - 1

    def batch(self, first: int, count: int) -> tuple[Tensor, Tensor]:
        """Return tokens and the tokens after each, int64 (count, context).

        `first` is the number of sequences that were learned before, over all epochs.
        """
        starts = [self._start(index) for index in range(first, first + count)]
        rows = torch.stack([self.tokens[at : at + self.context + 1] for at in starts]).long()
        return rows[:, :-1], rows[:, 1:]

    def _start(self, index: int) -> int:
        epoch, place = divmod(index, self.sequences)
        shift, order = _epoch(self.seed, epoch, self.context, self.sequences)
        return shift + int(order[place]) * self.context


@lru_cache(maxsize=2)
def _epoch(seed: int, epoch: int, context: int, sequences: int) -> tuple[int, Tensor]:
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    shift = int(torch.randint(context, (), generator=generator))
    return shift, torch.randperm(sequences, generator=generator)
