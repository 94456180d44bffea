"""The traps of `custom_mpi_options`, found before a job pays for them.

The training toolkit splits the string at white space (no quoting). Then Python's argparse takes
`--NCCL_DEBUG VALUE` out (`parse_known_args`), and with it every prefix of that option and
everything that looks like a call for help. The rest stands in the middle of the toolkit's own
mpirun line, before the program; so a word that no option takes becomes the program. Sources:
mpirun.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from shoal.launch import tables
from shoal.launch.contract import OPTIMIZE_SDP, Contract
from shoal.settings.sections.hyperparameters import shell_characters

Mistake = tuple[str, str]
"""What would happen, and what to write instead."""

_TOOLKIT_OPTION = "--NCCL_DEBUG"
_HELP = "--help"
_LEVELS = ("VERSION", "WARN", "INFO", "ABORT", "TRACE")  # NCCL user guide, environment variables

_ENV_LIST = ("mca_base_env_list", "mca_base_env_list_delimiter")
_SINGLE_DASH = re.compile(r"^-[A-Za-z]*[A-Z]")
"""Open MPI's options of several letters are in small letters, so with one dash this is none,
whatever follows.
"""
_UNKNOWN = 1  # of an option that is not in the table, one word may be its value


def mistakes_in(options: str, passed: Collection[str]) -> Iterator[Mistake]:
    """Yield what would not do what it looks like, each with what to write instead.

    `passed` are patterns of variables that the toolkit passes already.
    """
    if any(character in options for character in "\"'\\`"):
        message = "quotes and backslashes are passed on as they are: the toolkit only splits at"
        yield f"{message} white space", "write values without white space"
        return  # where the words end is then not what was meant
    if any(character in options for character in "\n\r\t"):
        yield "contains a line break or a tab", "write it on one line, with spaces"
    if shell := next((word for word in options.split() if shell_characters(word)), None):
        message = (
            f"`{shell}` has {shell_characters(shell)!r}: training toolkits up to 5.1.0 give the"
            " line to a shell, which acts on that, and later ones pass it on as it is"
        )
        yield message, "write plain options and values"
        return
    for option, values, count in _split(options):
        yield from _mistakes_of(option, values, count, passed)
        if _is_program(option):
            return  # and the rest would be the program's arguments


def passed_with(contract: Contract, instance_type: str) -> tuple[str, ...]:
    """Return the variables that mpirun is given whatever `custom_mpi_options` say."""
    runner = "smddp" if contract.is_smddp_by_mpirun else "horovod"
    added = (OPTIMIZE_SDP,) if contract.own_options else ()
    return (*tables.passed_by_toolkit(runner, instance_type), *added)


def variables_in(options: str) -> dict[str, str]:
    """Return the variables that `-x NAME=value` sets."""
    pairs = (
        " ".join(values).partition("=")
        for option, values, _ in _split(options)
        if _bare(option) == "x"
    )
    return {name: value for name, equals, value in pairs if equals}


def _split(options: str) -> Iterator[tuple[str, list[str], int]]:
    """Yield each option, the words after it that belong to it, and how many it needs."""
    words = options.split()
    while words:
        option = words.pop(0)
        count = _words_of(option)
        values = [
            words.pop(0) for _ in range(min(count, len(words))) if not words[0].startswith("-")
        ]
        yield option, values, count


def _words_of(option: str) -> int:
    """Return how many words after `option` belong to it."""
    name, equals, _ = option.partition("=")
    if name == _TOOLKIT_OPTION:
        return 0 if equals else 1
    if not option.startswith("-"):
        return 0
    return tables.mpirun().words.get(_bare(option), 0 if equals else _UNKNOWN)


def _mistakes_of(
    option: str, values: list[str], count: int, passed: Collection[str]
) -> Iterator[Mistake]:
    (name, _, value), bare, known = option.partition("="), _bare(option), tables.mpirun()
    if _is_program(option):
        message = f"`{option}` belongs to no option before it: mpirun would run it as the program"
        yield message, "write values without white space, and options with their dashes"
    elif name == _TOOLKIT_OPTION:
        yield from _level_mistakes(value or " ".join(values))
    elif _is_prefix(name, _TOOLKIT_OPTION):
        message = f"`{name}` is taken for {_TOOLKIT_OPTION}, of which it is a prefix"
        yield f"{message}, and never reaches mpirun", "spell the option out"
    elif _is_prefix(name, _HELP) or name == _HELP or option.startswith("-h"):
        message = f"`{name}` is taken for a call for the toolkit's own help"
        yield f"{message}, and the job ends without training", "leave it out"
    elif _is_no_option(name):
        is_level = bare == _bare(_TOOLKIT_OPTION)
        level = f"write {_TOOLKIT_OPTION} LEVEL, with two dashes"
        yield f"mpirun has no option `{name}`", level if is_level else "write `-x NAME=value`"
    elif refusal := known.refused.get(bare):
        yield f"`{name}` {refusal[0]}", refusal[1]
    elif bare == "x":
        yield from _variable_mistakes(option, values, passed)
    elif len(values) < count and bare in known.words:
        message = f"`{option}` needs {count} words after it and has {len(values)}"
        yield message, "write them, without white space in them"
    elif bare in ("mca", "gmca"):
        yield from _parameter_mistakes(*values)


def _level_mistakes(level: str) -> Iterator[Mistake]:
    if level not in _LEVELS:
        message = f"--NCCL_DEBUG needs a level, not {level or 'nothing'}"
        yield message, f"use one of {', '.join(_LEVELS)}"


def _variable_mistakes(
    option: str, values: list[str], passed: Collection[str]
) -> Iterator[Mistake]:
    """`-x NAME` passes a variable on, `-x NAME=value` sets one."""
    name, _, value = " ".join(values).partition("=")
    second = f"`{option} {name}` is the second one"
    if not name:
        yield f"`{option}` needs a variable", "write `-x NAME=value`"
    elif name == "NCCL_DEBUG":
        message = (
            "`-x NCCL_DEBUG=...` is the second one: the toolkit has already passed NCCL_DEBUG=INFO,"
            " and with Open MPI 5 the first counts"
        )
        yield message, f"write `--NCCL_DEBUG {value or 'LEVEL'}`, which the toolkit reads itself"
    elif name == OPTIMIZE_SDP and name in passed:
        reason = "collective: allgather with launcher: mpirun passes it already"
        yield f"{second}: {reason}", "remove it"
    elif name == OPTIMIZE_SDP:
        message = f"{OPTIMIZE_SDP} makes it smddp with AllGather, which is checked differently"
        yield message, "set collective: allgather and launcher: mpirun"
    elif any(fnmatchcase(name, pattern) for pattern in passed):
        yield f"{second}: the toolkit passes {name} itself", "leave it out"


def _parameter_mistakes(name: str, value: str) -> Iterator[Mistake]:
    own = tables.mpirun().parameters
    if name in _ENV_LIST:
        way = "a second way, next to the toolkit's `-x`, which no check here sees"
        yield f"{name} sets variables {way}", "write `-x NAME=value`"
    elif name in own and own[name] != value:
        whose = f"{name} {own[name]}" if own[name] else name
        message = (
            f"the toolkit passes `-mca {whose}` itself, and mpirun does not take two values of"
            " one parameter"
        )
        yield message, "leave it out"


def _is_program(option: str) -> bool:
    return not option.startswith("-") or not _bare(option)


def _is_no_option(name: str) -> bool:
    options = (*tables.mpirun().words, *tables.mpirun().refused)
    return (
        _SINGLE_DASH.match(name) is not None and _bare(name) not in options and len(_bare(name)) > 1
    )


def _bare(option: str) -> str:
    return option.partition("=")[0].lstrip("-")


def _is_prefix(name: str, option: str) -> bool:
    return len(name) > len("--") and name != option and option.startswith(name)
