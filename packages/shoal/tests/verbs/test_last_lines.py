"""The last lines of a failed job are those of the user's script, as far as they can be told."""

from __future__ import annotations

from shoal.verbs.follow import LastLines

TOOLKIT = "2026-11-23 04:31:08,123 sagemaker-training-toolkit"
TORCHRUN = "E1123 11:51:25.723000 20892 torch/distributed/elastic/multiprocessing/api.py:1002]"
OWN = ["reading data", "dataset has no column price"]
REPORT = [
    f"{TOOLKIT} INFO     Waiting for the process to finish and give a return code.",
    f"{TOOLKIT} INFO     Done waiting for a return code. Received 1 from exiting process.",
    f"{TOOLKIT} ERROR    Reporting training FAILURE",
    f"{TOOLKIT} ERROR    ExecuteUserScriptError:",
    "ExitCode 1",
    'ErrorMessage ""',
    'Command "torchrun --nnodes 1 --nproc_per_node 2 train.py"',
    f"{TOOLKIT} ERROR    Encountered exit_code 1",
]
ELASTIC = [
    f"{TORCHRUN} failed (exitcode: 1) local_rank: 0 (pid: 20976) of binary: /usr/bin/python",
    "Traceback (most recent call last):",
    *(f"  line {number} of the launcher" for number in range(20)),
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
]


def last(*lines: str) -> list[str]:
    kept = LastLines()
    for line in lines:
        kept.add(line)
    return list(kept.lines)


def test_what_torchrun_and_the_toolkit_say_of_the_end_is_left_out() -> None:
    assert last(*OWN, *ELASTIC, *REPORT) == OWN


def test_the_toolkits_report_alone_is_left_out_too() -> None:
    assert last(*OWN, *REPORT) == OWN


def test_of_a_job_whose_script_printed_nothing_the_report_is_shown() -> None:
    assert last(*REPORT) == REPORT


def test_no_more_lines_are_kept_than_fit_a_message() -> None:
    assert last(*map(str, range(100)), *REPORT) == [str(number) for number in range(85, 100)]
