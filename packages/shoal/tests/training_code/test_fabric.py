"""The network is read from NCCL's log.

The samples are lines that people have posted, each with its source.
"""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from local_kit.runtime import Runtime
from tests.training_code.training import CODE, Job


def _load(name: str) -> ModuleType:
    """Import a module of the source_dir that needs no torch."""
    spec = spec_from_file_location(name, CODE / f"{name}.py")
    assert spec
    assert spec.loader
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


nccl_log = _load("nccl_log")

# EC2 user guide, "Get started with EFA and NCCL"; aws-ofi-nccl of 2020 on p4d.
EFA_2020 = """
nccl-tests-efa-worker-0:26:26 [0] NCCL INFO Bootstrap : Using eth0:172.31.94.17<0>
nccl-tests-efa-worker-0:26:26 [0] NCCL INFO NET/OFI Selected Provider is efa
nccl-tests-efa-worker-0:26:26 [0] NCCL INFO NET/Plugin: Failed to find ncclCollNetPlugin_v4 symbol.
nccl-tests-efa-worker-0:26:26 [0] NCCL INFO Using network AWS Libfabric
"""
# NVIDIA/nccl issue 1597: p5en.
EFA_P5EN = """
8h200-2:6831:6840 [0] NCCL INFO NET/OFI Selected Provider is efa (found 16 nics)
8h200-2:6831:6840 [0] NCCL INFO Using network Libfabric
"""
# Field reports of 2026 with aws-ofi-nccl 1.16 and later.
EFA_DIRECT = """
ip-10-0-0-7:101:202 [7] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 15 nics)
ip-10-0-0-7:101:202 [7] NCCL INFO Assigned NET plugin Libfabric to comm
ip-10-0-0-7:101:202 [7] NCCL INFO Using network Libfabric
"""  # noqa: E501
# aws/aws-ofi-nccl issue 889: p4d, EFA is selected, then the plugin fails; NCCL goes on with what it
# has.
FALLS_BACK = """
ip-10-36-29-253:79:2547 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics)
ip-10-36-29-253:79:2547 [0] nccl_net_ofi_create_plugin:335 NCCL WARN NET/OFI aws-ofi-nccl initialization failed
ip-10-36-29-253:79:2547 [0] NCCL INFO NET/IB : No device found.
ip-10-36-29-253:79:2547 [0] NCCL INFO NET/Socket : Using [0]eth0:10.36.29.253<0>
ip-10-36-29-253:79:2547 [0] NCCL INFO Using network Socket
"""  # noqa: E501
# NVIDIA/nccl issue 229: no EFA device in the container.
NO_PROVIDER = """
ip-192-168-22-101:6:6 [0] get_ofi_provider:312 NCCL WARN NET/OFI Could not find any optimal provider
ip-192-168-22-101:6:6 [0] NCCL INFO Using network Socket
"""
# Any host without the plugin.
NO_PLUGIN = """
3767c65d25c4:880:887 [0] NCCL INFO NET/IB : No device found.
3767c65d25c4:880:887 [0] NCCL INFO NET/Socket : Using [0]eth0:172.17.0.2<0>
3767c65d25c4:880:887 [0] NCCL INFO Using network Socket
"""
# libfabric without EFA: the plugin works, over TCP.
OFI_TCP = """
ip-10-0-0-7:101:202 [0] NCCL INFO NET/OFI Selected Provider is tcp;ofi_rxm (found 1 nics)
ip-10-0-0-7:101:202 [0] NCCL INFO Using network AWS Libfabric
"""
SELECTED_ONLY = (
    "ip-10-0-0-7:1:2 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics)\n"
)
FAILED_ONLY = "ip-10-0-0-7:1:2 [0] NCCL WARN NET/OFI aws-ofi-nccl initialization failed\n"


@pytest.mark.parametrize(
    ("log", "provider", "evidence"),
    [
        (EFA_2020, "efa", "NET/OFI Selected Provider is efa"),
        (EFA_P5EN, "efa", "NET/OFI Selected Provider is efa"),
        (EFA_DIRECT, "efa", "NET/OFI Selected provider is efa"),
        (EFA_DIRECT + SELECTED_ONLY, "efa", "elected"),  # by a second communicator
        (FALLS_BACK, "tcp", "Using network Socket"),
        (NO_PROVIDER, "tcp", ""),
        (NO_PLUGIN, "tcp", ""),
        (OFI_TCP, "tcp", ""),
        ("", "unknown", ""),
        (FAILED_ONLY, "unknown", ""),
        (SELECTED_ONLY, "unknown", ""),
        (OFI_TCP + SELECTED_ONLY, "unknown", ""),
    ],
)
def test_the_provider_is_what_nccls_log_proves(log: str, provider: str, evidence: str) -> None:
    fabric = nccl_log.parse(log)
    assert fabric.provider == provider
    assert evidence in fabric.evidence


@pytest.mark.parametrize("written_as", ["algo-1", "algo-1.example.internal"])
def test_the_log_is_found_under_short_and_full_names(tmp_path: Path, written_as: str) -> None:
    (tmp_path / f"nccl.{written_as}.7.log").write_text(EFA_2020, encoding="utf-8")
    assert nccl_log.read(f"{tmp_path}/nccl.%h.%p.log", "algo-1.example.internal", 7) == EFA_2020


def test_what_is_no_file_is_not_waited_for() -> None:
    assert nccl_log.read("/dev/stdout", "algo-1", 7) == ""


@pytest.mark.nightly
def test_ranks_on_one_host_report_loopback(runtime: Runtime, dataset: Path, tmp_path: Path) -> None:
    required = {"SHOAL_REQUIRE_EFA": "1"}
    outcome = Job(runtime, dataset, tmp_path, "torchrun", 2, environment=required).run()
    line = re.search(
        r"fabric=(\w+) efa=(\d) hosts=1 ranks=2 allreduce_gigabytes_per_second=([0-9.]+) ",
        outcome.output,
    )
    assert line, outcome.output
    assert (line[1], line[2], float(line[3]) > 0) == ("loopback", "0", True)


def test_a_job_that_requires_efa_fails_on_tcp_before_it_trains(
    runtime: Runtime, dataset: Path, tmp_path: Path
) -> None:
    two_hosts = {"SM_HOSTS": '["algo-1", "algo-2"]', "SHOAL_REQUIRE_EFA": "1"}
    outcome = Job(runtime, dataset, tmp_path, "torchrun", 2, environment=two_hosts).run()
    assert outcome.returncode != 0
    assert "require_efa: 2 of 2 ranks do not use EFA; rank 0 uses tcp" in outcome.output
    assert (
        len(re.findall(r"^.*fabric=tcp efa=0 hosts=2 ranks=2 ", outcome.output, re.MULTILINE)) == 1
    )
    assert "epoch=" not in outcome.output


@pytest.mark.nightly
def test_beside_smddp_an_earlier_probe_proves_efa(runtime: Runtime, tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(EFA_DIRECT, encoding="utf-8")
    strict = {
        "SMDDP_LOCAL_STRICT": "1",
        "SM_CURRENT_INSTANCE_TYPE": "ml.p4d.24xlarge",
        "SHOAL_REQUIRE_EFA": "1",
        "PYTHONPATH": str(CODE),
        "NCCL_DEBUG_FILE": str(log),
    }
    script = Path(__file__).with_name("scripts") / "prove_beside_smddp.py"
    outcome = runtime.run(runtime.mpirun(2, script), tmp_path, strict)
    assert outcome.returncode == 0, outcome.output
    assert "backend=smddp seen=unknown fabric=efa efa=1 hosts=1 ranks=2 " in outcome.output
    assert "failed=unknown NCCL's probe ended with 1: " in outcome.output
