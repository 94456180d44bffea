"""The traps of `custom_mpi_options`, found before a job pays for them.

The training toolkit splits the string at white space (no quoting), takes `--NCCL_DEBUG VALUE` and every prefix of it out for itself
(argparse, `parse_known_args`), and has already passed `-x NCCL_DEBUG=INFO` before the user's options
(sagemaker-training 5.1.4, smdataparallel.py).
"""

from __future__ import annotations

from collections.abc import Iterator

_TOOLKIT_OPTION = "--NCCL_DEBUG"
_LEVELS = ("VERSION", "WARN", "INFO", "ABORT", "TRACE")


def mistakes_in(options: str) -> Iterator[tuple[str, str]]:
    """What would not do what it looks like, each with what to write instead."""
    words = options.split()
    if any(character in options for character in "\"'\\`"):
        yield "quotes and backslashes are passed on as they are: the toolkit only splits at white space", "write values without white space"
    if any(character in options for character in "\n\r\t"):
        yield "contains a line break or a tab", "write it on one line, with spaces"
    for word, following in zip(words, [*words, ""][1:], strict=True):
        yield from _mistakes_of(word, following)


def _mistakes_of(word: str, following: str) -> Iterator[tuple[str, str]]:
    name, _, value = word.partition("=")
    if word == "-x" and following.startswith("NCCL_DEBUG="):
        level = following.partition("=")[2]
        yield (
            "`-x NCCL_DEBUG=...` comes second: the toolkit has already passed NCCL_DEBUG=INFO, and the first one counts",
            f"write `--NCCL_DEBUG {level}`, which the toolkit reads itself",
        )
    elif name == _TOOLKIT_OPTION and (value or following) not in _LEVELS:
        yield f"--NCCL_DEBUG needs a level, not {value or following or 'nothing'}", f"use one of {', '.join(_LEVELS)}"
    elif len(name) > 2 and name != _TOOLKIT_OPTION and _TOOLKIT_OPTION.startswith(name):
        yield f"`{name}` is taken for {_TOOLKIT_OPTION}, of which it is a prefix, and never reaches mpirun", "spell the option out"
    elif word == "-x" and (not following or following.startswith("-")):
        yield "`-x` needs a variable", "write `-x NAME=value`"
