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
from shoal.settings.hyperparameters import shell_characters

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


def _mistake(kind: str, /, **facts: object) -> Mistake:
    """Return the mistake that mpirun.yaml has under this name."""
    row = tables.mpirun()["mistakes"][kind]
    return row["what"].format(**facts), row["instead"].format(**facts)


def mistakes_in(options: str, passed: Collection[str]) -> Iterator[Mistake]:
    """Yield what would not do what it looks like, each with what to write instead.

    `passed` are patterns of variables that the toolkit passes already.
    """
    if any(character in options for character in "\"'\\`"):
        yield _mistake("a quote")
        return  # where the words end is then not what was meant
    if any(character in options for character in "\n\r\t"):
        yield _mistake("a line break")
    if word := next((word for word in options.split() if shell_characters(word)), None):
        yield _mistake("a shell's character", word=word, characters=shell_characters(word))
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
        # how many words after `option` belong to it
        name, equals, _ = option.partition("=")
        count: int = tables.mpirun()["words"].get(_bare(option), 0 if equals else _UNKNOWN)
        if name == _TOOLKIT_OPTION:
            count = 0 if equals else 1
        elif not option.startswith("-"):
            count = 0
        values = [
            words.pop(0) for _ in range(min(count, len(words))) if not words[0].startswith("-")
        ]
        yield option, values, count


def _mistakes_of(
    option: str, values: list[str], count: int, passed: Collection[str]
) -> Iterator[Mistake]:
    (name, _, value), bare, known = option.partition("="), _bare(option), tables.mpirun()
    level = value or " ".join(values)
    if _is_program(option):
        yield _mistake("a program", option=option)
    elif name == _TOOLKIT_OPTION and level not in _LEVELS:
        yield _mistake("a level", level=level or "nothing", levels=", ".join(_LEVELS))
    elif name == _TOOLKIT_OPTION:
        return
    elif _is_prefix(name, _TOOLKIT_OPTION):
        yield _mistake("a prefix of the toolkit's option", name=name)
    elif _is_prefix(name, _HELP) or name == _HELP or option.startswith("-h"):
        yield _mistake("a call for help", name=name)
    elif _is_no_option(name):
        is_level = bare == _bare(_TOOLKIT_OPTION)
        yield _mistake("one dash" if is_level else "no option", name=name)
    elif refusal := known["refused"].get(bare):
        yield f"`{name}` {refusal['what']}", refusal["instead"]
    elif bare == "x":
        yield from _variable_mistakes(option, values, passed)
    elif len(values) < count and bare in known["words"]:
        yield _mistake("a word too few", option=option, count=count, given=len(values))
    elif bare in ("mca", "gmca"):
        yield from _parameter_mistakes(*values)


def _variable_mistakes(
    option: str, values: list[str], passed: Collection[str]
) -> Iterator[Mistake]:
    """`-x NAME` passes a variable on, `-x NAME=value` sets one."""
    name, _, value = " ".join(values).partition("=")
    if not name:
        yield _mistake("no variable", option=option)
    elif name == "NCCL_DEBUG":
        yield _mistake("the level twice", level=value or "LEVEL")
    elif name == OPTIMIZE_SDP:
        kind = "AllGather twice" if name in passed else "hidden AllGather"
        yield _mistake(kind, option=option, name=name)
    elif any(fnmatchcase(name, pattern) for pattern in passed):
        yield _mistake("a variable twice", option=option, name=name)


def _parameter_mistakes(name: str, value: str) -> Iterator[Mistake]:
    own = tables.mpirun()["parameters"]
    if name in _ENV_LIST:
        yield _mistake("a list of variables", name=name)
    elif name in own and own[name] != value:
        whose = f"{name} {own[name]}" if own[name] else name
        yield _mistake("a parameter twice", whose=whose)


def _is_program(option: str) -> bool:
    return not option.startswith("-") or not _bare(option)


def _is_no_option(name: str) -> bool:
    options = (*tables.mpirun()["words"], *tables.mpirun()["refused"])
    return (
        _SINGLE_DASH.match(name) is not None and _bare(name) not in options and len(_bare(name)) > 1
    )


def _bare(option: str) -> str:
    return option.partition("=")[0].lstrip("-")


def _is_prefix(name: str, option: str) -> bool:
    return len(name) > len("--") and name != option and option.startswith(name)
