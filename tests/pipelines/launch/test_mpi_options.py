"""Options that would not do what they look like are named, with what to write instead."""

from __future__ import annotations

import pytest

from pipelines.launch.mpi_options import mistakes_in


@pytest.mark.parametrize("options", ["", "-verbose", "-verbose --NCCL_DEBUG VERSION", "--NCCL_DEBUG=INFO -x A=1 -x B", "-mca btl tcp"])
def test_options_that_work_are_accepted(options: str) -> None:
    assert list(mistakes_in(options)) == []


@pytest.mark.parametrize(
    ("options", "what", "instead"),
    [
        ("-x 'A=1 2'", "quotes and backslashes are passed on as they are", "write values without white space"),
        ("-x A=1\\ 2", "quotes and backslashes are passed on as they are", "write values without white space"),
        ("-verbose\n-x A=1", "contains a line break or a tab", "write it on one line"),
        ("-x NCCL_DEBUG=VERSION", "the toolkit has already passed NCCL_DEBUG=INFO", "write `--NCCL_DEBUG VERSION`"),
        ("--NCCL VERSION", "`--NCCL` is taken for --NCCL_DEBUG, of which it is a prefix", "spell the option out"),
        ("--N=1", "`--N` is taken for --NCCL_DEBUG", "spell the option out"),
        ("--NCCL_DEBUG", "--NCCL_DEBUG needs a level, not nothing", "use one of VERSION, WARN, INFO"),
        ("--NCCL_DEBUG LOUD", "--NCCL_DEBUG needs a level, not LOUD", "use one of VERSION, WARN, INFO"),
        ("-x -verbose", "`-x` needs a variable", "write `-x NAME=value`"),
    ],
)
def test_a_trap_is_named_with_what_to_write(options: str, what: str, instead: str) -> None:
    ((message, advice),) = mistakes_in(options)
    assert what in message
    assert instead in advice
