"""Datasets: what is uploaded and from where, what is refused, and what an execution needs."""

import os
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from local_kit.tables import rows, table
from shoal.aws.events import Event, Note, Transferred
from shoal.aws.target import Target
from shoal.errors import DatasetError
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.channels import (
    Channel,
    default_channels,
    path_parameter,
    uri_parameter,
)
from shoal.settings.sections.scoring import Scoring
from shoal.settings.settings import Environment
from shoal.verbs import dataset
from shoal.verbs.demo import Demo
from shoal.verbs.inference import require_rows
from shoal.verbs.workspace import Session, Workspace
from tests.repository import FOLDER as LETTERS
from tests.repository import ROOT, add_workload, copy_folder, write_environment
from tests.verbs.conftest import make_pipeline, refusing

TOTAL_BYTES = 54_950_048
CHANNELS = ("train", "test")
LITTER = table(__file__, "cases.yaml")["litter"]


def made(target: Target, environment: Environment) -> tuple[str, str]:
    """Make the environment's bucket; return it and the dataset's prefix."""
    bucket = Names(environment).bucket("data")
    target.client("s3").create_bucket(Bucket=bucket)
    return bucket, Names(environment).dataset_uri.removeprefix(f"s3://{bucket}/")


def write(folder: Path, *names: str, text: str = "1\n") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def keys_in(target: Target, bucket: str) -> set[str]:
    return {each["Key"] for each in target.client("s3").list_objects_v2(Bucket=bucket)["Contents"]}


def test_an_upload_puts_each_file_in_its_channel_once(target: Target) -> None:
    environment = load_environment("dev", ROOT).model_copy(update={"name": "uploaded"})
    bucket, prefix = made(target, environment)
    events: list[Event] = []
    sent = [dataset.upload_workload(target, environment, ROOT, events.append) for _ in range(2)]
    assert sent == [4, 0]
    assert keys_in(target, bucket) == {
        f"{prefix}/train/train-images-idx3-ubyte",
        f"{prefix}/train/train-labels-idx1-ubyte",
        f"{prefix}/test/t10k-images-idx3-ubyte",
        f"{prefix}/test/t10k-labels-idx1-ubyte",
    }
    done_bytes = [event.done_bytes for event in events if isinstance(event, Transferred)]
    assert max(done_bytes) == TOTAL_BYTES
    assert isinstance(events[-1], Note)
    # another object in its place is replaced
    key, s3 = f"{prefix}/test/t10k-labels-idx1-ubyte", target.client("s3")
    s3.put_object(Bucket=bucket, Key=key, Body=b"something else")
    assert dataset.upload_workload(target, environment, ROOT, events.append) == 1
    assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == 10_008


def prices() -> Environment:
    environment = load_environment("dev", ROOT)
    return environment.model_copy(update={"workload": "prices", "project": "examples"})


def test_a_workloads_script_writes_what_is_uploaded(target: Target) -> None:
    bucket, prefix = made(target, prices())
    sent = [dataset.upload_workload(target, prices(), ROOT, lambda _: None) for _ in range(2)]
    assert sent == [2, 0]
    assert keys_in(target, bucket) == {f"{prefix}/{channel}/trips.csv" for channel in CHANNELS}


def test_what_was_uploaded_before_and_is_read_too_is_told(target: Target) -> None:
    (bucket, prefix), events = made(target, prices()), list[Event]()
    s3 = target.client("s3")
    s3.put_object(Bucket=bucket, Key=f"{prefix}/train/more/old.csv", Body=b"1")
    dataset.upload_workload(target, prices(), ROOT, events.append)
    s3.delete_object(Bucket=bucket, Key=f"{prefix}/train/more/old.csv")
    assert events[-1] == Note(
        f"the job will also read more/old.csv, which was at s3://{bucket}/{prefix}/train/ before:"
        " delete what it should not read (`aws s3 rm`), or name another `data.dataset`"
    )


def test_a_folder_is_uploaded_as_it_is(target: Target, bucket: str, tmp_path: Path) -> None:
    write(tmp_path, "train/a.csv", "train/more/b.csv", "test/c.csv", "notes.txt")
    (tmp_path / "score").mkdir()
    (tmp_path / "score" / "link").symlink_to("nowhere")  # not read
    uri = f"s3://{bucket}/d"
    events: list[Event] = []
    assert dataset.upload_folder(target, tmp_path, uri, default_channels(), events.append) == 3
    told = "1 folder was left out, because no channel of the environment names it: score"
    assert Note(told) in events
    assert keys_in(target, bucket) == {"d/train/a.csv", "d/train/more/b.csv", "d/test/c.csv"}


@pytest.mark.parametrize("row", table(__file__, "cases.yaml")["score_rows"], ids=str)
def test_rows_that_would_fail_every_execution_are_refused(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    for name, text in row["files"].items():
        (file := tmp_path / "score" / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="latin-1")
    says = row.get("says")
    with pytest.raises(DatasetError, match=re.escape(says)) if says else nullcontext():
        require_rows(tmp_path, row["files"], Scoring(**row.get("keys", {})))


@pytest.mark.parametrize("name", ["train/a.csv", "train/.hidden", "train/deep/b", "train", "test"])
def test_a_link_in_a_channel_is_refused(target: Target, tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).symlink_to("/etc")
    with pytest.raises(DatasetError, match=f"{name} is a link, which is not read"):
        dataset.upload_folder(target, tmp_path, "s3://b/d", default_channels(), lambda _: None)


@pytest.mark.parametrize(
    ("path", "is_sent"),
    [
        *((path, True) for path in LITTER["sent"]),
        *((path, False) for path in LITTER["left_out"]),
    ],
)
def test_what_a_system_leaves_in_a_folder_is_left_out_and_said(
    target: Target, bucket: str, tmp_path: Path, path: str, is_sent: bool
) -> None:
    write(tmp_path / "train", path, "kept.csv")
    uri, events = f"s3://{bucket}/{uuid4().hex}", list[Event]()
    count = dataset.upload_folder(target, tmp_path, uri, {"train": Channel()}, events.append)
    said = f"left out, because it is hidden or a system's: train/{path}"
    assert (count, Note(said) not in events) == (1 + is_sent, is_sent)


class Heads:
    """A client of S3 in which each object has been uploaded with a hash."""

    def __init__(self) -> None:
        self.calls = 0

    def head_object(self, **_: str) -> dict[str, dict[str, str]]:
        self.calls += 1
        return {"Metadata": {"md5": "hash"}}


@pytest.mark.parametrize(
    ("listed", "md5", "is_there", "calls"), rows(__file__, "cases.yaml", "listed")
)
def test_an_object_is_asked_for_where_a_listing_does_not_say_enough(
    listed: dict[str, object], md5: str, is_there: bool, calls: int
) -> None:
    s3 = Heads()
    assert dataset._is_uploaded(s3, "s3://b/k", listed, 1, md5) == is_there
    assert s3.calls == calls


@pytest.mark.parametrize("name", [b"a\x1b[31mb", b"a\nb", b"a\xff"])
def test_a_name_that_is_not_safe_in_s3_is_refused(
    target: Target, tmp_path: Path, name: bytes
) -> None:
    write(tmp_path, f"train/{os.fsdecode(name)}", "test/b.csv")
    with pytest.raises(DatasetError, match="no safe name of an object: 'train/a"):
        dataset.upload_folder(target, tmp_path, "s3://b/d", default_channels(), lambda _: None)


@pytest.mark.parametrize("litter", [(), ("test/.DS_Store",)])
def test_a_folder_without_a_channel_is_refused(
    target: Target, bucket: str, tmp_path: Path, litter: tuple[str, ...]
) -> None:
    write(tmp_path, "train/a.csv", *litter)
    uri = f"s3://{bucket}/d"
    with pytest.raises(DatasetError, match="has no files in test/"):
        dataset.upload_folder(target, tmp_path, uri, default_channels(), lambda _: None)


def test_an_optional_channel_can_come_later(target: Target, bucket: str, tmp_path: Path) -> None:
    channels = {"pages": Channel(), "base_model": Channel(optional=True)}
    write(tmp_path, "data/pages/a.txt", "model/base_model/weights.bin")
    events: list[Event] = []

    def upload(folder: str) -> int:
        uri = f"s3://{bucket}/d"
        return dataset.upload_folder(target, tmp_path / folder, uri, channels, events.append)

    with pytest.raises(DatasetError, match="has no files in pages/"):
        upload("model")
    assert [upload("data"), upload("model")] == [1, 1]
    (later,) = [event.text for event in events if isinstance(event, Note) and "yet" in event.text]
    assert later.startswith(f"no files are at s3://{bucket}/d/base_model/ yet")
    with pytest.raises(DatasetError, match="has no files in pages/ and base_model/"):
        upload("nothing")


@pytest.mark.parametrize(("script", "says"), rows(__file__, "cases.yaml", "scripts"))
def test_a_workload_without_a_script_that_writes_its_dataset_is_refused(
    target: Target, tmp_path: Path, script: str | None, says: str
) -> None:
    add_workload(tmp_path)
    folder = tmp_path / "training_code" / "prices"
    if script:
        (folder / "prepare.py").write_text(script)
    else:
        text = (folder / "workload.yaml").read_text().replace("prepare: prepare.py\n", "")
        (folder / "workload.yaml").write_text(text)
    with pytest.raises(DatasetError, match=says):
        dataset.upload_workload(target, prices(), tmp_path, lambda _: None)


def test_a_demo_starts_nothing_before_its_dataset_is_written(tmp_path: Path) -> None:
    """What a demo that was killed has written is not there."""
    add_workload(tmp_path)
    script = tmp_path / "training_code" / "prices" / "prepare.py"
    script.write_text("import os, sys; raise SystemExit(f'there are {os.listdir(sys.argv[2])}')")
    before = tmp_path / ".shoal" / "demo" / "data" / "train"
    before.mkdir(parents=True)
    workspace, out = Workspace(tmp_path, {}), tmp_path / "out"
    demo = Demo(workspace, prices(), out, lambda _: None, None, {}, enforce_iam=False)
    outcome = demo.run(lambda: None)
    ((phase, message),) = ((each.phase, each.message) for each in outcome.failures)
    assert (phase, message.rpartition(": ")[2]) == ("data", "there are []")
    assert outcome.seconds.keys() == {"total"}
    assert demo.summary["left_behind"] == []


def test_a_channel_that_nobody_writes_is_a_notice(tmp_path: Path) -> None:
    folder = tmp_path / "training_code" / "letters"
    folder.mkdir(parents=True)
    text = (LETTERS / "workload.yaml").read_text().replace("prepare: prepare.py\n", "")
    (folder / "workload.yaml").write_text(text)
    copy_folder(LETTERS / "pytorch", folder / "pytorch")
    write_environment(tmp_path)
    (told,) = dataset.upload_notices(load_environment("lab", tmp_path), tmp_path)
    assert told.startswith("data.dataset letters: workload letters has no script `prepare`")
    assert told.endswith("--from FOLDER` uploads FOLDER/pages/, FOLDER/holdout/")


def deployed(target: Target, declared: dict[str, str] | None = None) -> tuple[Session, str]:
    """Return an environment whose pipeline declares these parameters, by default its channels'
    places, and the place of its dataset.
    """
    environment = load_environment("dev", ROOT).model_copy(update={"name": f"d{uuid4().hex[:6]}"})
    names = Names(environment)
    if declared is None:
        declared = {uri_parameter(name): f"{names.dataset_uri}/{name}/" for name in CHANNELS}
    parameters = [
        {"Name": name, "Type": "String", "DefaultValue": value} for name, value in declared.items()
    ]
    fail = {"Name": "Stop", "Type": "Fail", "Arguments": {"ErrorMessage": "stopped"}}
    make_pipeline(target, [fail], parameters, name=names.pipeline)
    return Session(Workspace(ROOT, {}), environment, target), names.dataset_uri


def put(session: Session, channel: str) -> None:
    bucket, _, prefix = Names(session.environment).dataset_uri[5:].partition("/")
    s3 = session.target.client("s3")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key=f"{prefix}/{channel}/part-0", Body=b"1")


def test_an_execution_needs_data_in_every_channel(target: Target) -> None:
    session, uri = deployed(target)
    with pytest.raises(DatasetError) as caught:
        dataset.require_uploaded(session, {})
    assert str(caught.value) == (
        f"there is nothing at {uri}/train/ (channel train) and {uri}/test/ (channel test);"
        f" type `shoal data upload {session.environment.name} --local`"
    )
    put(session, "train")
    with pytest.raises(DatasetError, match=f"nothing at {uri}/test/ [(]channel test[)];"):
        dataset.require_uploaded(session, {})
    put(session, "test")
    assert dataset.require_uploaded(session, {}) == ""


def test_an_execution_may_read_another_place(target: Target) -> None:
    session, uri = deployed(target)
    put(session, "test")
    elsewhere = f"{uri}/elsewhere/"
    with pytest.raises(DatasetError, match=f"{elsewhere} .*; put the files there, or name another"):
        dataset.require_uploaded(session, {"TrainDataUri": elsewhere})
    put(session, "elsewhere")
    assert dataset.require_uploaded(session, {"TrainDataUri": elsewhere}) == ""


def test_a_file_system_shows_what_is_in_the_bucket(target: Target) -> None:
    session, uri = deployed(target, {path_parameter(name): f"/fs/{name}" for name in CHANNELS})
    put(session, "train")
    with pytest.raises(DatasetError, match=f"nothing at {uri}/test/ [(]channel test[)];"):
        dataset.require_uploaded(session, {})
    assert dataset.require_uploaded(session, {"TestDataPath": "/fs/other"}) == ""


def test_of_a_pipeline_without_channels_no_data_is_asked(target: Target) -> None:
    session, _ = deployed(target, {"Whom": "Bob"})
    assert dataset.require_uploaded(session, {}) == ""


def test_who_may_not_list_goes_on(target: Target) -> None:
    session = replace(deployed(target)[0], target=refusing(target, "ListObjectsV2"))
    notice = "whether the data is in S3 was not checked: ListObjectsV2 is not allowed"
    assert dataset.require_uploaded(session, {}) == notice
