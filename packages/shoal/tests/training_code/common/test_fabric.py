"""The network is read from NCCL's log."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from common import nccl_log

from local_kit.runtime import Runtime
from tests.tables import table
from tests.training_code.training import Job

TABLE = table(__file__, "nccl_logs.yaml")
EFA_2020, EFA_DIRECT = (TABLE["logs"][name] for name in ("efa 2020", "efa direct"))


@pytest.mark.parametrize(("logs", "provider", "evidence"), TABLE["proves"])
def test_the_provider_is_what_nccls_log_proves(
    logs: list[str], provider: str, evidence: str
) -> None:
    fabric = nccl_log.parse("".join(TABLE["logs"][name] for name in logs))
    assert fabric.provider == provider
    assert evidence in fabric.evidence


@pytest.mark.parametrize("written_as", ["algo-1", "algo-1.example.internal"])
def test_the_log_is_found_under_short_and_full_names(tmp_path: Path, written_as: str) -> None:
    (tmp_path / f"nccl.{written_as}.7.log").write_text(EFA_2020, encoding="utf-8")
    assert nccl_log.read(f"{tmp_path}/nccl.%h.%p.log", "algo-1.example.internal", 7) == EFA_2020


def test_what_is_no_file_is_not_waited_for() -> None:
    assert nccl_log.read("/dev/stdout", "algo-1", 7) == ""


@pytest.mark.nightly
def test_ranks_on_one_host_report_loopback(own: Job) -> None:
    required = {"SHOAL_REQUIRE_EFA": "1"}
    outcome = replace(own, launcher="torchrun", ranks=2, environment=required).run()
    line = re.search(
        r"fabric=(\w+) efa=(\d) hosts=1 ranks=2 allreduce_gigabytes_per_second=([0-9.]+) ",
        outcome.output,
    )
    assert line, outcome.output
    assert (line[1], line[2], float(line[3]) > 0) == ("loopback", "0", True)


def test_a_job_that_requires_efa_fails_on_tcp_before_it_trains(own: Job) -> None:
    two_hosts = {"SM_HOSTS": '["algo-1", "algo-2"]', "SHOAL_REQUIRE_EFA": "1"}
    outcome = replace(own, launcher="torchrun", ranks=2, environment=two_hosts).run()
    assert outcome.returncode != 0
    assert "require_efa: 2 of 2 ranks do not use EFA; rank 0 uses tcp" in outcome.output
    assert (
        len(re.findall(r"^.*fabric=tcp efa=0 hosts=2 ranks=2 ", outcome.output, re.MULTILINE)) == 1
    )
    assert "epoch=" not in outcome.output


@pytest.mark.parametrize(
    ("hosts", "status", "says"),
    [
        (
            ["algo-1"],
            0,
            "fabric=loopback efa=0 hosts=1 evidence='the CPUs of one host'\nas it is x",
        ),
        (["algo-1", "algo-2"], 1, "require_efa: this rank uses tcp (the CPUs of 2 hosts). Check"),
    ],
)
def test_a_script_that_knows_nothing_of_it_is_run_behind_the_proof(
    runtime: Runtime, tmp_path: Path, hosts: list[str], status: int, says: str
) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint('as it is', *sys.argv[1:], flush=True)\n")
    entry = tmp_path / "proved.py"
    entry.write_text('from common.fabric import run_proved\nrun_proved("train.py")\n')
    variables = {"SHOAL_REQUIRE_EFA": "1", "SM_HOSTS": json.dumps(hosts)}
    outcome = runtime.run(runtime.alone(entry, "x"), tmp_path, variables)
    assert outcome.returncode == status
    assert says in outcome.output


@pytest.mark.nightly
def test_beside_smddp_an_earlier_probe_proves_efa(runtime: Runtime, tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(EFA_DIRECT, encoding="utf-8")
    strict = {
        "SMDDP_LOCAL_STRICT": "1",
        "SM_CURRENT_INSTANCE_TYPE": "ml.p4d.24xlarge",
        "SHOAL_REQUIRE_EFA": "1",
        "NCCL_DEBUG_FILE": str(log),
    }
    script = Path(__file__).parents[1] / "scripts" / "prove_beside_smddp.py"
    outcome = runtime.run(runtime.mpirun(2, script), tmp_path, strict)
    assert outcome.returncode == 0, outcome.output
    assert "backend=smddp seen=unknown\nfabric=efa efa=1 hosts=1 ranks=2 " in outcome.output
    assert "failed=unknown NCCL's probe ended with 1: " in outcome.output
