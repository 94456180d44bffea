"""Options that would not do what they look like are named, with what to write instead."""

from __future__ import annotations

import argparse

import pytest

from shoal.launch import tables
from shoal.launch.mpi_options import mistakes_in, variables_in
from tests.tables import table

SMDDP = tables.passed_by_toolkit("smddp", "ml.p4d.24xlarge")
HOROVOD = tables.passed_by_toolkit("horovod", "ml.p4d.24xlarge")

WORKING = [
    "",
    "-verbose",
    "-verbose --NCCL_DEBUG VERSION",
    "--NCCL_DEBUG=INFO -x A=1 -x B --x C=d",
    "--timeout 60 -map-by ppr:4:socket --report-bindings -x HOROVOD_FUSION_THRESHOLD=16777216",
    "-mca btl_vader_single_copy_mechanism none --mca rmaps_base_verbose 5",
    "--an-option-of-tomorrow value -output-filename out",
    "-x SMDATAPARALLEL_SOMETHING=1",
    "-x A=a:b,c@d%e^f",
]


def reaches_mpirun(options: str) -> list[str]:
    """Return what the toolkit's parser leaves for mpirun, set up as in sagemaker-training 5.1.4."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--NCCL_DEBUG", default="INFO", type=str)
    return parser.parse_known_args(options.split())[1]


@pytest.mark.parametrize("options", WORKING)
def test_options_that_work_are_accepted(options: str) -> None:
    assert list(mistakes_in(options, SMDDP)) == []


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
    assert "the job ends without training" in next(mistakes_in(options, SMDDP))[0]


@pytest.mark.parametrize(
    ("options", "what", "instead"),
    [tuple(row.values()) for row in table(__file__, "traps.yaml")],
)
def test_a_trap_is_named_with_what_to_write(options: str, what: str, instead: str) -> None:
    ((message, advice),) = mistakes_in(options, SMDDP)
    assert what in message
    assert instead in advice


@pytest.mark.parametrize(
    ("passed", "names"),
    [
        (
            SMDDP,
            "FI_PROVIDER RDMAV_FORK_SAFE NCCL_PROTO FI_EFA_USE_DEVICE_RDMA SAGEMAKER_INSTANCE_TYPE",
        ),
        (
            HOROVOD,
            "FI_PROVIDER NCCL_MIN_NRINGS NCCL_PROTO FI_EFA_USE_DEVICE_RDMA SM_HOSTS PYTHONPATH",
        ),
    ],
)
def test_what_a_runner_passes_on_p4d_cannot_be_given_again(
    passed: tuple[str, ...], names: str
) -> None:
    for name in names.split():
        assert list(mistakes_in(f"-verbose -x {name}=1", passed)) == [
            (
                f"`-x {name}` is the second one: the toolkit passes {name} itself",
                "leave it out",
            )
        ]


@pytest.mark.parametrize("name", ["FI_PROVIDER", "NCCL_PROTO", "RDMAV_FORK_SAFE"])
def test_elsewhere_a_user_may_set_them(name: str) -> None:
    passed = tables.passed_by_toolkit("horovod", "ml.g5.12xlarge")
    assert list(mistakes_in(f"-x {name}=1", passed)) == []


def test_the_variables_that_options_set_are_found() -> None:
    assert variables_in("-verbose -x A=1 --x B=c=d -x C -map-by slot") == {"A": "1", "B": "c=d"}
