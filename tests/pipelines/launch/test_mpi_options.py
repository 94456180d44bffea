"""Options that would not do what they look like are named, with what to write instead."""

from __future__ import annotations

import argparse

import pytest

from pipelines.launch.mpi_options import mistakes_in

WORKING = ["", "-verbose", "-verbose --NCCL_DEBUG VERSION", "--NCCL_DEBUG=INFO -x A=1 -x B", "-mca btl tcp --host a -H b -np 2 -N 1"]


def reaches_mpirun(options: str) -> list[str]:
    """What is left for mpirun after the toolkit's parser, set up as sagemaker-training 5.1.4 does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--NCCL_DEBUG", default="INFO", type=str)
    return parser.parse_known_args(options.split())[1]


@pytest.mark.parametrize("options", WORKING)
def test_options_that_work_are_accepted(options: str) -> None:
    assert list(mistakes_in(options)) == []


@pytest.mark.parametrize("options", WORKING)
def test_accepted_options_reach_mpirun_but_for_the_toolkits_own(options: str) -> None:
    toolkits_own = ("--NCCL_DEBUG VERSION", "--NCCL_DEBUG=INFO")
    for own in toolkits_own:
        options = options.replace(own, "")
    assert reaches_mpirun(options) == options.split()


@pytest.mark.parametrize("options", ["-h", "--he", "-hostfile x", "-x A=1 -host a"])
def test_options_that_look_like_help_would_end_the_job_and_are_refused(options: str) -> None:
    with pytest.raises(SystemExit):
        reaches_mpirun(options)
    assert ["the job ends without training" in what for what, _ in mistakes_in(options)] == [True]


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
