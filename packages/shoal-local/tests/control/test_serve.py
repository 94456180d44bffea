"""The emulator as a process: it says where it is, stops cleanly, and cleans up after a crash.
Connections stay open while requests can be told apart, and end with it.
"""

import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from local_kit.control import ROOT, Account, eventually, running
from shoal_local import server, testing
from shoal_local.__main__ import MAX_OPEN_FILES, parser
from shoal_local.processes import ProcessRegistry, started_at
from shoal_local.testing import LocalAccount, LocalEmulator, in_process

SHOAL_LOCAL = (sys.executable, "-m", "shoal_local")
needs_ipv6 = pytest.mark.skipif(server.IPV6 not in server.hosts(), reason="this machine has no ::1")


def emulator(*arguments: str) -> tuple[int, str]:
    """Run `python -m shoal_local ...` and return exit code and output."""
    command = [*SHOAL_LOCAL, *arguments]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    return process.returncode, process.stdout + process.stderr


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LocalEmulator]:
    with testing.emulator(tmp_path / "state") as local:
        yield local


def test_the_ready_line_is_what_the_state_file_and_status_say(served: LocalEmulator) -> None:
    ready, state_dir = served.ready, served.account.state_dir
    code, output = emulator("status", "--state-dir", str(state_dir))
    assert ready["pid"] == served.process.pid
    state = json.loads((state_dir / "emulator.json").read_text())
    assert state.pop("secret_access_key")
    assert (code, json.loads(output), state) == (0, ready, ready)


def test_env_says_how_to_use_it_and_only_its_accounts(served: LocalEmulator) -> None:
    account = served.account
    code, output = emulator("env", "--state-dir", str(account.state_dir))
    settings = Path(account.variables()["SAGEMAKER_USER_CONFIG_OVERRIDE"])
    assert code == 0
    assert output.splitlines() == [
        f"export AWS_ENDPOINT_URL={account.endpoint}",
        f"export AWS_ENDPOINT_URL_S3={account.endpoint}",
        f"export SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT={account.endpoint}",
        f"export AWS_ACCESS_KEY_ID={account.key}",
        f"export AWS_SECRET_ACCESS_KEY={account.secret}",
        f"export AWS_DEFAULT_REGION={account.region}",
        f"export SAGEMAKER_USER_CONFIG_OVERRIDE={settings}",
    ]
    foreign = ("--account", "999988887777")
    code, output = emulator("env", "--state-dir", str(account.state_dir), *foreign)
    assert (code, "does not play account 999988887777" in output) == (1, True)


def test_env_unsets_what_clients_would_read_first(
    served: LocalEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_SQS", "AWS_PAGER"):
        monkeypatch.setenv(name, "of-another-account")
    _, output = emulator("env", "--state-dir", str(served.account.state_dir))
    assert [line for line in output.splitlines() if line.startswith("unset ")] == [
        "unset AWS_ENDPOINT_URL_SQS",
        "unset AWS_PROFILE",
        "unset AWS_SESSION_TOKEN",
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_with_exit_code_zero_and_status_finds_none(
    served: LocalEmulator, number: signal.Signals
) -> None:
    served.process.send_signal(number)
    assert served.process.wait(20) == 0
    state_dir = served.account.state_dir
    assert emulator("status", "--state-dir", str(state_dir)) == (3, '{"running": false}\n')


def test_a_signal_while_it_imports_ends_it_before_it_serves(tmp_path: Path) -> None:
    command = [*SHOAL_LOCAL, "serve", "--state-dir", str(tmp_path / "state")]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        eventually(lambda: (tmp_path / "state" / "emulator.log").exists())
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "", "")


def test_down_stops_it_and_removes_its_files(served: LocalEmulator) -> None:
    state_dir = served.account.state_dir
    assert emulator("down", "--state-dir", str(state_dir)) == (0, '{"stopped": true}\n')
    assert served.process.wait(5) == 0
    assert not state_dir.exists()


def test_a_second_emulator_with_the_same_state_directory_is_refused(served: LocalEmulator) -> None:
    code, output = emulator("serve", "--state-dir", str(served.account.state_dir))
    assert code == 1
    assert "an emulator already runs" in output


@pytest.mark.parametrize("verb", ["env", "status", "down"])
@pytest.mark.parametrize("place", [__file__, f"{__file__}/x"])
def test_a_file_is_no_state_directory(verb: str, place: str) -> None:
    code, output = emulator(verb, "--state-dir", place)
    assert code == 1
    assert output.startswith(f"emulator: {place} cannot be the state directory: ")


def test_while_an_emulator_starts_its_folder_is_left_alone(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    command = [*SHOAL_LOCAL, "serve", "--state-dir", str(state_dir)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starting:
        try:
            eventually(lambda: (state_dir / "emulator.log").exists())
            starting.send_signal(signal.SIGSTOP)  # it has not written yet where it listens
            refusal = f"emulator: another emulator starts or stops with {state_dir}"
            for verb in ("serve", "down"):
                code, output = emulator(verb, "--state-dir", str(state_dir))
                assert (code, output.splitlines()) == (1, [f"{refusal}; wait until it has"])
            starting.send_signal(signal.SIGCONT)
            assert starting.stdout is not None
            assert "endpoint" in json.loads(starting.stdout.readline())
        finally:
            starting.kill()


def test_children_of_a_crashed_emulator_are_ended_by_down(served: LocalEmulator) -> None:
    state_dir = served.account.state_dir
    account = Account(served.account.endpoint, state_dir)
    name = account.function(
        "import subprocess\ndef handler(event, context):\n    return subprocess.Popen(['sleep',"
        " '60']).pid\n"
    )
    child = account.invoke(name)["payload"]
    served.kill()
    assert started_at(child) is not None
    assert emulator("down", "--state-dir", str(state_dir))[0] == 0
    assert started_at(child) is None


def test_a_start_after_a_crash_begins_empty(served: LocalEmulator) -> None:
    served.account.client("s3").create_bucket(Bucket="before-the-crash")
    served.kill()
    with running(served.account.state_dir) as account:
        assert account.client("s3").list_buckets()["Buckets"] == []


def test_a_folder_with_somebodys_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    code, output = emulator("serve", "--state-dir", str(tmp_path))
    assert (code, "has files that no emulator made" in output) == (1, True)
    assert emulator("down", "--state-dir", str(tmp_path))[0] == 0
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_without_a_state_directory_it_is_in_the_users_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert parser().parse_args(["serve"]).state_dir == tmp_path / "shoal-local"


@pytest.mark.parametrize(
    ("option", "value", "code", "refusal"),
    [
        ("--account", "12345", 2, "'12345' is not an account id of 12 digits"),
        ("--region", "../x", 2, "'../x' is not the name of a region"),
        ("--port", "99999", 2, "'99999' is not a number from 0 to 65535"),
        ("--schedule-speed", "nan", 2, "'nan' is not a number from 1 to 3600"),
        ("--duration", "stop_grace_s=nan", 2, "'nan' is not a number from 0 to 1000000"),
        ("--duration", "stop_grace_s", 2, "'stop_grace_s' is not NAME=SECONDS"),
        ("--accelerators", "-3", 2, "'-3' is not a number from 0 to 1000000"),
        *((option, "/nope", 2, "no '/nope'") for option in ("--faults", "--capacity", "--recipes")),
        ("--state-dir", __file__, 1, f"emulator: {__file__} cannot be the state directory: "),
        ("--state-dir", f"{__file__}/x", 1, f"emulator: {__file__}/x cannot be the state director"),
    ],
)
def test_an_option_that_cannot_be_is_one_sentence(
    tmp_path: Path, option: str, value: str, code: int, refusal: str
) -> None:
    state_dir = ("--state-dir", str(tmp_path / "state"))
    status, output = emulator("serve", *state_dir, option, value)
    assert (status, refusal in output.splitlines()[-1]) == (code, True), output


def test_a_port_that_is_taken_is_one_sentence(served: LocalEmulator, tmp_path: Path) -> None:
    port = served.ready["port"]
    code, output = emulator("serve", "--state-dir", str(tmp_path / "other"), "--port", str(port))
    assert code == 1
    refusal = f"emulator: port {port} of 127.0.0.1 cannot be used: Address already in use"
    assert output.strip() == refusal


@needs_ipv6
def test_it_answers_at_every_address_that_localhost_may_be(served: LocalEmulator) -> None:
    answers = []
    for host in ("127.0.0.1", "::1"):
        connection = http.client.HTTPConnection(host, served.ready["port"], timeout=30)
        connection.request("GET", "/", headers={"Host": f"localhost:{served.ready['port']}"})
        answers.append(connection.getresponse().status)
        connection.close()
    assert answers == [403, 403]  # not signed


@needs_ipv6
def test_a_port_that_another_program_has_at_ipv6_is_refused(tmp_path: Path) -> None:
    with socket.create_server((server.IPV6, 0), family=socket.AF_INET6) as theirs:
        port = theirs.getsockname()[1]
        code, output = emulator("serve", "--state-dir", str(tmp_path), "--port", str(port))
    refusal = f"emulator: port {port} of ::1 cannot be used: Address already in use"
    assert (code, output.strip()) == (1, refusal)


def test_a_machine_without_ipv6_has_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IPV6", "2001:db8::1")  # of documentation; no machine has it
    (listener,) = server.listen(0)
    with listener:
        assert listener.getsockname()[0] == server.IPV4


def test_neither_the_users_settings_nor_a_proxy_stand_between_the_emulator_and_itself(
    tmp_path: Path,
) -> None:
    own = {"AWS_PROFILE": "production", "AWS_ENDPOINT_URL": "http://localhost:1"}
    proxies = dict.fromkeys(("HTTP_PROXY", "https_proxy"), "http://localhost:1")
    with running(tmp_path / "state", environment={**os.environ, **own, **proxies}) as account:
        assert account.answers()


def test_it_may_open_more_files_than_the_shell_that_starts_it(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        with testing.emulator(tmp_path / "state") as local:
            limits = resource.prlimit(local.process.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert limits == (min(hard, MAX_OPEN_FILES), hard)


def test_a_disk_that_is_full_leaves_requests_answered(served: LocalEmulator) -> None:
    state_dir, client = served.account.state_dir, served.account.client("s3")
    for _ in range(30):  # so that its log has room for a traceback
        client.list_buckets()
    full = (state_dir / "requests.jsonl").stat().st_size
    resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (full, full))
    for _ in range(2):
        client.list_buckets()
    log = (state_dir / "emulator.log").read_text()
    assert log.count("requests.jsonl has not every request") == 1


def test_a_pid_that_belongs_to_another_program_now_is_left_alone(tmp_path: Path) -> None:
    registry = ProcessRegistry(tmp_path)
    registry.register(os.getpid(), "not what it was")
    record = tmp_path / "processes" / f"{os.getpid()}.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "started_at": "1"}))
    assert registry.sweep() == []


def test_a_registered_group_is_ended_with_its_members(tmp_path: Path) -> None:
    script = "sleep 60 & echo $!; wait"
    process = subprocess.Popen(
        ["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    member = int(process.stdout.readline())
    registry = ProcessRegistry(tmp_path)
    registry.register(process.pid, "a test")
    assert registry.sweep() == [process.pid]
    process.wait(5)
    assert eventually(lambda: started_at(member) is None)


FORM = b"Action=GetCallerIdentity&Version=2011-06-15"
TYPE = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def connection(account: LocalAccount) -> Iterator[http.client.HTTPConnection]:
    opened = http.client.HTTPConnection("localhost", urlsplit(account.endpoint).port, timeout=30)
    yield opened
    opened.close()


def test_a_connection_takes_one_request_after_another(
    account: LocalAccount, connection: http.client.HTTPConnection
) -> None:
    connection.connect()
    first = connection.sock
    for _ in range(2):
        connection.request("POST", "/", FORM, account.signed("POST", "/", "sts", FORM, TYPE))
        answer = connection.getresponse()
        assert (answer.status, connection.sock) == (200, first)
        assert account.number in answer.read().decode()


def test_a_body_that_nobody_read_ends_the_connection(
    account: LocalAccount, connection: http.client.HTTPConnection
) -> None:
    headers = account.signed("POST", "/", "sts", FORM, TYPE) | {"Origin": "http://other.example"}
    connection.request("POST", "/", FORM, headers)
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (403, "close")


def test_open_connections_end_with_the_emulator(tmp_path: Path) -> None:
    with in_process(tmp_path / "state") as emulator:
        port = urlsplit(emulator.endpoint_url()).port
        connection = http.client.HTTPConnection("localhost", port, timeout=30)
        connection.request("GET", "/")
        connection.getresponse().read()
        opened = connection.sock
    assert opened.recv(1) == b""
    connection.close()


@pytest.mark.parametrize(
    "lengths",
    [["5", "50"], ["5", "5"], ["+5"], ["-1"], ["1e3"], ["many"], ["9" * 30], ["9" * 5000]],
    ids=["two", "twice", "plus", "minus", "exponent", "word", "large", "long"],
)
def test_a_length_that_is_no_single_number_is_refused_and_ends_the_connection(
    account: LocalAccount, connection: http.client.HTTPConnection, lengths: list[str]
) -> None:
    connection.putrequest("POST", "/")
    for length in lengths:
        connection.putheader("Content-Length", length)
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (400, "close")
    assert b"Content-Length is not a number of bytes" in answer.read()


def test_a_body_without_end_that_nobody_reads_is_not_read_to_its_end(
    account: LocalAccount, connection: http.client.HTTPConnection
) -> None:
    connection.putrequest("POST", "/")
    connection.putheader("Origin", "http://other.example")
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    with pytest.raises(ConnectionError):  # 64 MiB are more than what sockets hold
        connection.send([bytes(1024 * 1024)] * 64)
