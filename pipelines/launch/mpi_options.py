"""The traps of `custom_mpi_options`, found before a job pays for them.

The training toolkit splits the string at white space (no quoting), then lets Python's argparse take `--NCCL_DEBUG VALUE` out
(`parse_known_args`), which also takes every prefix of it and everything that looks like a call for help; and it has already passed
`-x NCCL_DEBUG=INFO` before the user's options. Source: sagemaker-training 5.1.4, smdataparallel.py.
"""

from __future__ import annotations

from collections.abc import Iterator

_TOOLKIT_OPTION = "--NCCL_DEBUG"
_HELP = "--help"
_LEVELS = ("VERSION", "WARN", "INFO", "ABORT", "TRACE")  # NCCL user guide, environment variables


def mistakes_in(options: str) -> Iterator[tuple[str, str]]:
    """What would not do what it looks like, each with what to write instead."""
    if any(character in options for character in "\"'\\`"):
        yield "quotes and backslashes are passed on as they are: the toolkit only splits at white space", "write values without white space"
    if any(character in options for character in "\n\r\t"):
        yield "contains a line break or a tab", "write it on one line, with spaces"
    words = options.split()
    for word, following in zip(words, [*words, ""][1:], strict=True):
        yield from _mistakes_of(word, following)


def _mistakes_of(word: str, following: str) -> Iterator[tuple[str, str]]:
    name, _, value = word.partition("=")
    if word == "-x" and following.startswith("NCCL_DEBUG="):
        level = following.partition("=")[2]
        what = "`-x NCCL_DEBUG=...` is the second one: the toolkit has already passed NCCL_DEBUG=INFO, and with Open MPI 5 the first counts"
        yield what, f"write `--NCCL_DEBUG {level}`, which the toolkit reads itself"
    elif name == _TOOLKIT_OPTION and (value or following) not in _LEVELS:
        yield f"--NCCL_DEBUG needs a level, not {value or following or 'nothing'}", f"use one of {', '.join(_LEVELS)}"
    elif word == "-x" and (not following or following.startswith("-")):
        yield "`-x` needs a variable", "write `-x NAME=value`"
    elif _is_prefix(name, _TOOLKIT_OPTION):
        yield f"`{name}` is taken for {_TOOLKIT_OPTION}, of which it is a prefix, and never reaches mpirun", "spell the option out"
    elif _is_prefix(name, _HELP) or name == _HELP or word.startswith("-h"):
        what = f"`{name}` is taken for a call for the toolkit's own help, and the job ends without training"
        yield what, "leave it out; write --host, --hostfile and the like with two dashes"


def _is_prefix(name: str, option: str) -> bool:
    return len(name) > len("--") and name != option and option.startswith(name)
