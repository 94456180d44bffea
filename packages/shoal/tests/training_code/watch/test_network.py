"""A job proves which network carries its gradients, before its script: by what NCCL logged."""

import json
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Outcome, Runtime, finish
from local_kit.tables import rows, table
from shoal.launch import watch
from shoal.launch.watch import network, run
from tests.training_code.training import write_watched

TABLE = table(__file__, "cases.yaml")
SAYS_ALL = """
import dataclasses, os
import network, run
place = network.Place(*run.place(dict(os.environ))["network"])
print(network.look(place, 2, has_gpu=True).evidence + "\\n", end="", flush=True)
print(f"probed {dataclasses.asdict(network.probe(place, 'gloo', 'cpu'))}\\n", end="", flush=True)
"""


@pytest.mark.parametrize(("logs", "provider", "evidence"), TABLE["proves"])
def test_the_provider_is_what_nccls_log_proves(
    logs: list[str], provider: str, evidence: str
) -> None:
    read = network.parse("".join(TABLE["logs"][name] for name in logs))
    assert read.provider == provider
    assert evidence in read.evidence


@pytest.mark.parametrize(("environ", "place"), rows(__file__, "cases.yaml", "places"))
def test_ranks_meet_above_the_jobs_own_port(environ: dict[str, str], place: list[Any]) -> None:
    rank, *_, address, port = place
    told = run.place({"OMPI_COMM_WORLD_LOCAL_SIZE": "2", **environ})
    assert told["network"] == place
    assert (told["rank"], told["meet"]) == (rank, [address, port + 2])  # that of the watch


def job(runtime: Runtime, folder: Path, hosts: int) -> Outcome:
    """Run a script that knows nothing of it, as one rank of a job on CPUs."""
    config = {"script": "train.py", "stall_s": "off", "network": "efa"}
    script = b"import sys\nprint('as it is', *sys.argv[1:], flush=True)\n"
    write_watched(folder, config, {"train.py": script})
    names = json.dumps([f"algo-{number + 1}" for number in range(hosts)])
    variables = {"SM_HOSTS": names, "SM_OUTPUT_DIR": str(folder)}
    return runtime.run(runtime.alone(folder / watch.PROGRAM, "x"), folder, variables)


def test_any_script_runs_behind_the_proof(runtime: Runtime, tmp_path: Path) -> None:
    outcome, line = job(runtime, tmp_path, 1), "fabric=loopback efa=0 hosts=1 ranks=1 evidence="
    assert outcome == Outcome(0, f"{line}'the CPUs of one host'\nas it is x\n")


def test_a_job_that_requires_efa_fails_on_tcp_before_its_script(
    runtime: Runtime, tmp_path: Path
) -> None:
    outcome = job(runtime, tmp_path, 2)
    assert outcome.returncode == 1
    reason = "require_efa: 1 of 1 ranks do not use EFA; rank 0 uses tcp (the CPUs of 2 hosts). "
    assert (tmp_path / "failure").read_text().startswith(f"{reason}Check the security group")
    assert reason in outcome.output
    assert "as it is" not in outcome.output


HANGS = """
import os, pathlib, subprocess, sys, time
from datetime import timedelta
import network
if sys.argv[1:] == ["child"]:
    network._TIMEOUT = timedelta(seconds=float(os.environ["LEAVE_S"]))
    log = pathlib.Path("nccl.log")
    log.write_text("NET/OFI Selected provider is efa")
    network._leave_in_time(log)
    time.sleep(100)
child = [sys.executable, __file__, "child"]
if os.environ["LEAVE_S"] == "0":
    sys.exit(subprocess.run(child).returncode)
subprocess.Popen(child)
time.sleep(1)
"""


@pytest.mark.parametrize(("leave_s", "status"), [("0", 1), ("60", 0)])
def test_a_probe_that_hangs_or_is_left_alone_says_what_nccl_logged_and_ends(
    runtime: Runtime, tmp_path: Path, leave_s: str, status: int
) -> None:
    script = tmp_path / "hangs.py"
    script.write_text(HANGS)
    paths = {"PYTHONPATH": str(Path(network.__file__).parent), "LEAVE_S": leave_s}
    outcome = finish(runtime.launch(runtime.alone(script), tmp_path, paths))
    assert outcome.returncode == status
    said = "NCCL did not connect; it uses unknown (NET/OFI Selected provider is efa)"
    assert said in outcome.output  # whose end is awaited: the child has it too


@pytest.mark.parametrize(
    "launcher", ["torchrun", pytest.param("mpirun", marks=pytest.mark.nightly)]
)
def test_the_ranks_reduce_and_leave_before_the_job(
    runtime: Runtime, tmp_path: Path, launcher: str
) -> None:
    script = tmp_path / "says.py"
    script.write_text(SAYS_ALL)
    paths = {"PYTHONPATH": str(Path(network.__file__).parent)}
    outcome = runtime.run(getattr(runtime, launcher)(2, script), tmp_path, paths)
    assert outcome.returncode == 0, outcome.output
    assert outcome.output.count("NCCL's probe failed: ") == 2  # there is no GPU
    assert outcome.output.count("probed {'provider': 'unknown', 'evidence': 'NCCL has logged") == 2
    assert outcome.output.count("'efa_ranks': 0, 'gb_per_s': ") == 2
