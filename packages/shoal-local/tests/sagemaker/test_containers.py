"""Containers: what a process inside sees, that none outlives its pod, and what is left of it
without namespaces.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import GOOD_MODEL, deploy, invoke, settled
from local_kit.networks import needs_namespaces, needs_networks
from local_kit.sagemaker_account import Account, command_lines, until
from shoal_local.processes import ProcessRegistry
from shoal_local.sagemaker.container import launch
from shoal_local.sagemaker.container.launch import PLAIN_VARIABLE, Host, Pod
from shoal_local.sagemaker.jobs.base.containers import write_ssh_client, write_sshd
from shoal_local.sagemaker.jobs.base.files import HostPaths
from shoal_local.testing import emulator

PYTHON = f"{sys.base_prefix}/bin/python3"
GET = (
    f'{PYTHON} -c "import sys, urllib.request as u;'
    " print(u.urlopen('http://localhost:' + sys.argv[1]).read())\""
)
LIMIT_S = 60.0
"""For what takes a moment on an idle machine."""


class Greeter(BaseHTTPRequestHandler):
    """Stands for the emulator's endpoint."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"greetings")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """Nothing."""


@contextmanager
def pod_of(
    folder: Path,
    scripts: dict[str, str],
    addresses: dict[str, str] | None = None,
    *,
    visible: Sequence[Path] = (),
    state_dir: Path | None = None,
    on_line: Callable[[str, str], None] | None = None,
) -> Iterator[tuple[Pod, list[str]]]:
    """A running pod with a host per script, and the lines they have written; $PORT is the
    endpoint's.
    """
    by_name = addresses or {}
    lines: list[str] = []
    for name in scripts:
        HostPaths(folder / name).make(list(scripts), by_name)
    with ThreadingHTTPServer(("127.0.0.1", 0), Greeter) as server:
        environment = {"PATH": os.defpath, "PORT": str(server.server_port)}
        shell = ["/bin/sh", "-c"]
        hosts = [
            Host(name, folder / name, [*shell, script], environment, by_name.get(name))
            for name, script in scripts.items()
        ]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        pod = Pod(
            folder,
            hosts,
            ProcessRegistry(state_dir or folder),
            [Path(sys.base_prefix), *visible],
            (server.server_port,),
            on_line or (lambda host, line: lines.append(f"{host}: {line}")),
        )
        try:
            yield pod, lines
        finally:
            pod.close()
            server.shutdown()


def run(*arguments: Any, **options: Any) -> tuple[dict[str, int | None], list[str]]:
    """Return exit codes and lines of a pod (see `pod_of`) that has ended."""
    with pod_of(*arguments, **options) as (pod, lines):
        assert pod.wait(LIMIT_S)
        return pod.exit_codes(), lines


@needs_namespaces
def test_each_host_has_its_name_its_files_and_its_processes(tmp_path: Path) -> None:
    """Only their user may read the file that has their credentials."""
    script = "hostname; touch /opt/ml/mark /tmp/mark; ls /opt/ml /tmp; set -- /proc/[0-9]*; echo $#"
    codes, lines = run(tmp_path, {"one": script, "two": script})
    written = [line.removeprefix("two: ") for line in lines if line.startswith("two: ")]
    assert codes == {"one": 0, "two": 0}
    assert written == ["two", "/opt/ml:", "mark", "", "/tmp:", "mark", "2"]
    assert not Path("/opt/ml/mark").exists()
    file = tmp_path / "pod.json"
    assert "environment" in json.loads(file.read_text())["hosts"][0]
    assert file.stat().st_mode & 0o777 == 0o600


@needs_namespaces
def test_a_pod_starts_again_in_its_folder_where_a_link_leads_to_what_it_sees(
    tmp_path: Path,
) -> None:
    link = tmp_path / "link"
    link.symlink_to("/usr")
    for _ in range(2):
        codes, lines = run(tmp_path / "pod", {"one": f"ls {link}"}, visible=[link])
        assert codes == {"one": 0}, lines


@needs_namespaces
def test_a_host_with_an_sshd_has_it_where_drivers_look_beside_the_machines_programs(
    tmp_path: Path,
) -> None:
    script = "echo A=1 >> /etc/environment; /usr/sbin/sshd -D; cat /etc/environment; ls /usr/sbin"
    (tmp_path / "one" / "bin").mkdir(parents=True)
    write_sshd(HostPaths(tmp_path / "one"))
    codes, lines = run(tmp_path, {"one": script})
    programs = {entry.name for entry in Path("/usr/sbin").iterdir()} | {"sshd"}
    assert (codes, lines[0]) == ({"one": 0}, "one: A=1")
    assert {line.removeprefix("one: ") for line in lines[1:]} == programs


@needs_namespaces
def test_a_pod_sees_neither_the_emulators_secret_nor_what_is_of_other_jobs() -> None:
    # outside /tmp, which is a host's own anyway
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        jobs = Path(folder) / "sagemaker-jobs"
        secrets = [
            Path(folder) / "emulator.json",
            jobs / "training-other" / "pod.json",
            *(Path(folder) / name / "other" / "emulator.json" for name in ("accounts", "regions")),
        ]
        for file in secrets:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("the secret")
        read = f"umount {folder}/* 2>&-; cat {' '.join(map(str, secrets))}"
        script = f"{read}; echo kept > /opt/ml/model; ! mount -o remount,rw / 2>&-"
        codes, lines = run(jobs / "training-own", {"one": script}, state_dir=Path(folder))
        assert codes == {"one": 0}
        assert [line for line in lines if "No such file" not in line] == []
        assert (jobs / "training-own" / "one" / "ml" / "model").read_text() == "kept\n"
        assert {file.read_text() for file in secrets} == {"the secret"}


@needs_namespaces
def test_a_host_reaches_the_endpoint_and_the_emulator_reaches_the_host(tmp_path: Path) -> None:
    ask = f"{GET} $(cat /tmp/port)"
    serve = f"exec {PYTHON} -m http.server 8080"
    script = f"while ! test -s /tmp/port; do sleep 0.05; done; {ask}; {serve}"
    with pod_of(tmp_path, {"one": script}) as (pod, lines):
        port = json.loads((tmp_path / "pod.json").read_text())["ports"][0]
        (tmp_path / "one" / "tmp" / "port").write_text(str(port))
        until(lambda: lines, lambda output: "one: b'greetings'" in output)
        until(lambda: answers(pod), lambda answer: answer)


@needs_namespaces
def test_pods_at_the_same_time_have_the_same_port(tmp_path: Path) -> None:
    serve = {"one": f"exec {PYTHON} -m http.server 8080"}
    with pod_of(tmp_path / "a", serve) as (first, _), pod_of(tmp_path / "b", serve) as (second, _):
        until(lambda: answers(first) and answers(second), bool)
        assert (first.exit_codes(), second.exit_codes()) == ({"one": None}, {"one": None})


@needs_networks
def test_hosts_with_addresses_have_ports_and_a_loopback_of_their_own_and_reach_each_other(
    tmp_path: Path,
) -> None:
    listen = "s = socket.create_server(('one', 7777)); print(s.accept()[1][0])"
    reach = (
        "print(socket.create_connection(('one', 7777)).getpeername());"
        " socket.create_server(('two', 7777))"
    )
    python = f'{PYTHON} -c "import socket;'
    scripts = {
        "one": f'{python} {listen}" && {GET} $PORT',
        "two": f'until {python} {reach}"; do sleep 0.1; done; {GET} $PORT',
    }
    codes, lines = run(tmp_path, scripts, {"one": "10.0.0.11", "two": "10.0.0.12"})
    assert codes == {"one": 0, "two": 0}
    got = {"one: b'greetings'", "two: b'greetings'"}
    assert got | {"one: 10.0.0.12", "two: ('10.0.0.11', 7777)"} <= set(lines)


@needs_networks
def test_ssh_between_hosts_takes_the_jobs_key_and_no_other(runtime: Path, tmp_path: Path) -> None:
    addresses = {"one": "10.0.0.11", "two": "10.0.0.12", "stranger": "10.0.0.13"}
    ready = "until test -s /opt/emulator-bin/cluster-secret; do sleep 0.1; done"
    shell = f"export PATH={runtime.parent}:/opt/emulator-bin:$PATH HOME=/tmp; {ready}"
    knock = (
        'python -c "import paramiko; c = paramiko.SSHClient();'
        " c.set_missing_host_key_policy(paramiko.AutoAddPolicy()); c.connect('one',"
        ' pkey=paramiko.ECDSAKey.generate(), allow_agent=False, look_for_keys=False)"'
    )
    slow = (  # a server whose answer to a request comes long after a short command has ended
        "python -P -c \"import sys, time; sys.path.append('/opt/emulator');"
        " import remote_shell as r;"
        " check = r.ExecOnlyServer.check_channel_exec_request;"
        " r.ExecOnlyServer.check_channel_exec_request = "
        'lambda *request: (check(*request), time.sleep(0.3))[0]; r.serve()"'
    )
    run = "until ssh -x one true; do sleep 0.3; done; ssh one 'hostname; exit 3'; echo code=$?"
    refused = f"until {knock} 2>&1 | grep AuthenticationException; do sleep 0.3; done"
    scripts = {
        "one": f"{shell}; {slow}",
        "two": f"{shell}; {run}",
        "stranger": f"{shell}; {refused}; echo refused",
    }
    with pod_of(tmp_path, scripts, addresses, visible=[runtime.parents[1]]) as (_, lines):
        write_ssh_client([HostPaths(tmp_path / name) for name in addresses])
        expected = {"two: one", "two: code=3", "stranger: refused"}
        until(lambda: lines, lambda output: expected <= set(output))


def answers(pod: Pod) -> bool:
    try:
        with pod.dial(8080) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(12) == b"HTTP/1.0 200"
    except ConnectionError:
        return False


@needs_namespaces
def test_sigterm_reaches_every_process_of_a_host(tmp_path: Path) -> None:
    inner = 'trap "echo inner; exit 0" TERM; echo ready; while :; do sleep 0.05; done'
    outer = "trap 'wait; echo outer; exit 5' TERM; while :; do sleep 0.05; done"
    with pod_of(tmp_path, {"one": f"sh -c '{inner}' & {outer}"}) as (pod, lines):
        until(lambda: lines, lambda output: "one: ready" in output)
        pod.terminate()
        assert pod.wait(LIMIT_S)
        assert pod.exit_codes() == {"one": 5}
    assert {"one: inner", "one: outer"} <= set(lines)


@needs_namespaces
def test_sigterm_that_comes_while_the_container_is_set_up_ends_it_all_the_same(
    tmp_path: Path,
) -> None:
    """After other pauses each time: without the signal being held until there is somebody to get
    it, one or two of them lose it.
    """
    for pause_ms in (0, 2, 4, 6, 8, 10, 12, 15, 20, 30):
        with pod_of(tmp_path / str(pause_ms), {"one": "exec sleep 600"}) as (pod, _):
            time.sleep(pause_ms / 1000)
            pod.terminate()
            assert pod.wait(LIMIT_S), pause_ms


def test_without_namespaces_a_pod_that_is_closed_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "isolation_refused", lambda: "the test does not want them")
    command = f"sleep 54{os.getpid()}"  # no other run of the tests on this machine has it
    with pod_of(tmp_path, {"one": f"trap '' TERM; echo ready; {command}"}) as (pod, lines):
        until(lambda: lines, lambda output: "one: ready" in output)
        until(command_lines, lambda lines: command in lines)
        pod.terminate()
        assert not pod.wait(0.5)
    until(command_lines, lambda lines: command not in lines)


@needs_namespaces
def test_after_sigterm_no_host_takes_the_first_one_with_it(tmp_path: Path) -> None:
    slow = 'trap "sleep 1; echo kept; exit 143" TERM; echo ready; while :; do sleep 0.05; done'
    with pod_of(tmp_path, {"one": slow, "two": "echo ready; exec sleep 600"}) as (pod, lines):
        until(lambda: lines, lambda output: {"one: ready", "two: ready"} <= set(output))
        pod.terminate()
        assert pod.wait(LIMIT_S)
        assert pod.exit_codes() == {"one": 143, "two": 143}
    assert "one: kept" in lines


@needs_namespaces
def test_the_first_host_that_fails_ends_the_others(tmp_path: Path) -> None:
    codes, _ = run(tmp_path, {"one": "sleep 600", "two": "exit 9"})
    assert codes == {"one": None, "two": 9}


@pytest.mark.parametrize(
    ("script", "reason"), [("\0", "embedded null byte"), ("\ud800", "surrogates not allowed")]
)
def test_a_command_that_no_program_can_have_is_one_sentence(
    tmp_path: Path, script: str, reason: str
) -> None:
    codes, (line,) = run(tmp_path, {"one": script})
    assert codes == {"one": 127}
    assert line.startswith("one: /bin/sh: this machine cannot start it: ")
    assert line.endswith(reason)


@needs_namespaces
def test_a_container_goes_on_where_its_lines_cannot_be_handled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []

    def fail(_host: str, line: str) -> None:
        lines.append(line)
        raise TypeError(line)

    # more than the pipe between them holds
    codes, _ = run(tmp_path, {"one": "seq 40000"}, on_line=fail)
    assert codes == {"one": 0}
    assert len(lines) == 40_000
    assert sum("a line of one" in each.getMessage() for each in caplog.records) == 1


@pytest.fixture
def plain(tmp_path: Path, runtime: Path) -> Iterator[Account]:
    """The account of an emulator process that makes containers without namespaces."""
    assert runtime.exists()
    with emulator(tmp_path, environment=os.environ | {PLAIN_VARIABLE: "1"}) as local:
        yield Account.at(local.account)


def test_a_job_runs_without_namespaces_too_and_its_log_says_so(
    plain: Account,
) -> None:
    job = plain.train("plain", hyperparameters={"do": "succeed"})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    notice = "No Linux namespaces here (SHOAL_PLAIN_CONTAINERS is set)"
    log = plain.log("/aws/sagemaker/TrainingJobs", "plain")
    assert any(notice in line for line in log)
    refusal = "does not emulate processing jobs on this machine: they need files at /opt/ml/proces"
    with pytest.raises(ClientError, match=refusal):
        plain.start_processing("plain", "true")
    two_hosts = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
    refusal = "does not emulate several hosts on this machine: each needs its own /opt/ml"
    with pytest.raises(ClientError, match=refusal):
        plain.sagemaker.create_training_job(**plain.training("plain-two", ResourceConfig=two_hosts))


@pytest.mark.nightly
def test_an_endpoint_answers_without_namespaces(plain: Account) -> None:
    deploy(plain, "plain", GOOD_MODEL)
    endpoint = settled(plain, "plain")
    assert endpoint["EndpointStatus"] == "InService", endpoint.get("FailureReason")
    assert invoke(plain, "plain", {"x": 2})["y"] == 6


def test_an_emulator_that_is_killed_takes_its_jobs_with_it(runtime: Path, tmp_path: Path) -> None:
    """SIGKILL: no handler of ours runs, the kernel and the pod have to do it."""
    assert runtime.exists()
    with emulator(tmp_path) as local:
        account = Account.at(local.account)
        commands = {f"sleep {number}{os.getpid()}" for number in (51, 52)}
        account.start_processing("orphan", f"setsid {' & '.join(sorted(commands))}")
        until(command_lines, lambda lines: commands <= set(lines))
        local.process.kill()
        until(command_lines, lambda lines: not commands & set(lines))
