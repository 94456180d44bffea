"""The table of torchrun's options is the runtime's, and says which names end a job."""

from __future__ import annotations

import json
import subprocess

import pytest

from local_kit.runtime import Runtime
from shoal.launch import tables

ENDS_THE_JOB = """
import contextlib, io, json, sys
from torch.distributed.run import get_args_parser
def ends(word):
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            get_args_parser().parse_args(["train.py", word, "1"])
        except SystemExit:
            return True
    return False
options = sorted(o for a in get_args_parser()._actions for o in a.option_strings if o[:2] == "--")
words = sorted({option[:end] for option in options for end in range(3, len(option) + 1)})
short = [f"-{word[2]}" for word in words if len(word) == 3]
print(json.dumps([options, [word for word in (*words, *short) if ends(word)]]))
"""


@pytest.fixture(scope="module")
def torchrun(runtime: Runtime) -> tuple[list[str], set[str]]:
    """Return the options of the runtime's torchrun, and the words that end a job."""
    command = runtime.alone("-c", ENDS_THE_JOB)
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    options, words = json.loads(answer.stdout)
    return options, set(words)


def test_the_table_has_every_option_of_torchrun(torchrun: tuple[list[str], set[str]]) -> None:
    assert sorted(f"--{option}" for option in tables.torchrun_options()) == torchrun[0]


def test_just_the_names_that_end_a_job_are_ambiguous(torchrun: tuple[list[str], set[str]]) -> None:
    names = {
        option[:end] for option in tables.torchrun_options() for end in range(1, len(option) + 1)
    }
    as_words = {name: f"--{name}" if len(name) > 1 else f"-{name}" for name in names}
    assert {name for name in names if tables.torchrun_options_from(name)} == {
        name for name, word in as_words.items() if word in torchrun[1]
    }
