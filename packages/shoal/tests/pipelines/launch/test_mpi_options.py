"""Options that would not do what they look like are named, with what to write instead."""

from __future__ import annotations

import argparse

import pytest

from shoal.launch import tables
from shoal.launch.mpi_options import mistakes_in, variables_in

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
    [
        (
            "-x 'A=1 2'",
            "quotes and backslashes are passed on as they are",
            "write values without white space",
        ),
        (
            "-x A=1\\ 2",
            "quotes and backslashes are passed on as they are",
            "write values without white space",
        ),
        ("-verbose\n-x A=1", "contains a line break or a tab", "write it on one line"),
        (
            "-x A=b c",
            "`c` belongs to no option before it: mpirun would run it as the program",
            "write values without white space",
        ),
        ("train.py", "`train.py` belongs to no option before it", "options with their dashes"),
        (
            "-verbose train.py",
            "`train.py` belongs to no option before it",
            "options with their dashes",
        ),
        (
            "-verbose train.py more and more",
            "`train.py` belongs to no option before it",
            "options with their dashes",
        ),
        (
            "-verbose | tee x",
            "`|` has '|': training toolkits up to 5.1.0 give the line to a shell",
            "write plain options and values",
        ),
        ("-x A=1 2>&1", "`2>&1` has '>&'", "write plain options and values"),
        ("-x A=$HOME", "`A=$HOME` has '$'", "write plain options and values"),
        ("-verbose -x NOTE=a;id>FILE;echo", "`NOTE=a;id>FILE;echo` has ';>'", "write plain"),
        ("-x A=a&id", "`A=a&id` has '&'", "write plain options and values"),
        ("-x A=*", "`A=*` has '*'", "write plain options and values"),
        ("-x A=~/x", "`A=~/x` has '~'", "write plain options and values"),
        ("-x A=a#b", "`A=a#b` has '#'", "write plain options and values"),
        ("-x A={a,b}", "`A={a,b}` has '{}'", "write plain options and values"),
        ("-x A=!!", "`A=!!` has '!'", "write plain options and values"),
        (
            "-NCCL_DEBUG WARN",
            "mpirun has no option `-NCCL_DEBUG`",
            "write --NCCL_DEBUG LEVEL, with two dashes",
        ),
        ("-xA=1", "mpirun has no option `-xA`", "write `-x NAME=value`"),
        ("-verbose --", "`--` belongs to no option before it", "options with their dashes"),
        (
            "-np 4",
            "`-np` is what the toolkit passes itself, from the number of instances",
            "training.processes_per_host",
        ),
        ("--n 4", "`--n` is what the toolkit passes itself", "training.processes_per_host"),
        ("-N 1", "`-N` contradicts the -np that the toolkit passes", "training.processes_per_host"),
        (
            "--host a",
            "`--host` is what the toolkit passes itself, with the names of the job's instances",
            "training.instance_count",
        ),
        ("-H a", "`-H` is what the toolkit passes itself", "training.instance_count"),
        (
            "--version",
            "`--version` makes mpirun do something else than start the script",
            "leave it out",
        ),
        (
            "-x NCCL_DEBUG=VERSION",
            "the toolkit has already passed NCCL_DEBUG=INFO",
            "write `--NCCL_DEBUG VERSION`",
        ),
        (
            "-x NCCL_DEBUG",
            "the toolkit has already passed NCCL_DEBUG=INFO",
            "write `--NCCL_DEBUG LEVEL`",
        ),
        (
            "--x NCCL_DEBUG=INFO",
            "the toolkit has already passed NCCL_DEBUG=INFO",
            "write `--NCCL_DEBUG INFO`",
        ),
        (
            "-x LD_LIBRARY_PATH=/a",
            "`-x LD_LIBRARY_PATH` is the second one: the toolkit passes LD_LIBRARY_PATH itself",
            "leave it out",
        ),
        (
            "-x SMDATAPARALLEL_SERVER_PORT=1",
            "the toolkit passes SMDATAPARALLEL_SERVER_PORT itself",
            "leave it out",
        ),
        (
            "-x SMDATAPARALLEL_OPTIMIZE_SDP=true",
            "makes it smddp with AllGather",
            "set collective: allgather and launcher: mpirun",
        ),
        (
            "-mca mca_base_env_list NCCL_DEBUG=INFO",
            "mca_base_env_list sets variables a second way",
            "write `-x NAME=value`",
        ),
        ("--mca btl tcp,self", "the toolkit passes `-mca btl ^openib` itself", "leave it out"),
        (
            "-mca btl_tcp_if_include eth1",
            "the toolkit passes `-mca btl_tcp_if_include` itself",
            "leave it out",
        ),
        (
            "-mca btl -verbose",
            "`-mca` needs 2 words after it and has 1",
            "write them, without white space in them",
        ),
        (
            "--NCCL VERSION",
            "`--NCCL` is taken for --NCCL_DEBUG, of which it is a prefix",
            "spell the option out",
        ),
        ("--N=1", "`--N` is taken for --NCCL_DEBUG", "spell the option out"),
        (
            "--NCCL_DEBUG",
            "--NCCL_DEBUG needs a level, not nothing",
            "use one of VERSION, WARN, INFO",
        ),
        (
            "--NCCL_DEBUG LOUD",
            "--NCCL_DEBUG needs a level, not LOUD",
            "use one of VERSION, WARN, INFO",
        ),
        ("-x -verbose", "`-x` needs a variable", "write `-x NAME=value`"),
        ("-x =1", "`-x` needs a variable", "write `-x NAME=value`"),
    ],
)
def test_a_trap_is_named_with_what_to_write(options: str, what: str, instead: str) -> None:
    ((message, advice),) = mistakes_in(options, SMDDP)
    assert what in message
    assert instead in advice


@pytest.mark.parametrize(
    "name",
    [
        "FI_PROVIDER",
        "RDMAV_FORK_SAFE",
        "NCCL_PROTO",
        "FI_EFA_USE_DEVICE_RDMA",
        "SAGEMAKER_INSTANCE_TYPE",
    ],
)
def test_what_smddps_runner_passes_on_p4d_cannot_be_given_again(name: str) -> None:
    ((message, advice),) = mistakes_in(f"-verbose -x {name}=1", SMDDP)
    assert (message, advice) == (
        f"`-x {name}` is the second one: the toolkit passes {name} itself",
        "leave it out",
    )


@pytest.mark.parametrize(
    "name",
    [
        "FI_PROVIDER",
        "NCCL_MIN_NRINGS",
        "NCCL_PROTO",
        "FI_EFA_USE_DEVICE_RDMA",
        "SM_HOSTS",
        "PYTHONPATH",
    ],
)
def test_what_the_runner_of_horovod_passes_on_p4d_cannot_be_given_again(name: str) -> None:
    ((message, _),) = mistakes_in(f"-verbose -x {name}=1", HOROVOD)
    assert f"the toolkit passes {name} itself" in message


@pytest.mark.parametrize("name", ["FI_PROVIDER", "NCCL_PROTO", "RDMAV_FORK_SAFE"])
def test_elsewhere_a_user_may_set_them(name: str) -> None:
    assert (
        list(mistakes_in(f"-x {name}=1", tables.passed_by_toolkit("horovod", "ml.g5.12xlarge")))
        == []
    )


def test_the_variables_that_options_set_are_found() -> None:
    assert variables_in("-verbose -x A=1 --x B=c=d -x C -map-by slot") == {"A": "1", "B": "c=d"}
