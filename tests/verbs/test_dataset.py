"""The real MNIST files, uploaded over real HTTP."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from config.loader import load_environment
from config.names import Names
from config.settings import Environment
from shoal.verbs import dataset
from shoal.verbs.errors import DatasetError
from shoal.verbs.events import Event, Note, Transferred
from shoal.verbs.target import Target
from tests.repository import ROOT

FOLDER = ROOT / dataset.FOLDER
TOTAL_BYTES = 54_950_048


def test_the_installed_files_are_the_published_ones() -> None:
    dataset.verify(FOLDER)


def test_a_changed_file_is_named_with_both_sums(tmp_path: Path) -> None:
    shutil.copy(FOLDER / dataset.TEST_LABELS.name, tmp_path)
    with (tmp_path / dataset.TEST_LABELS.name).open("ab") as file:
        file.write(b"x")
    with pytest.raises(
        DatasetError,
        match=f"t10k-labels-idx1-ubyte is not the published.*not {dataset.TEST_LABELS.md5}",
    ):
        dataset.verify(tmp_path, (dataset.TEST_LABELS,))


def test_a_missing_file_says_what_brings_it(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match=r"train-images-idx3-ubyte is missing; run `make install`"
    ):
        dataset.verify(tmp_path)


def test_test_digit_0_is_a_seven() -> None:
    digit = dataset.read_digit(FOLDER, 0)
    assert (digit.label, len(digit.rows), len(digit.rows[0])) == (7, 28, 28)
    assert max(max(row) for row in digit.rows) > 200


@pytest.mark.parametrize("number", [-1, 10_000])
def test_a_digit_outside_of_the_test_set_is_refused(number: int) -> None:
    with pytest.raises(DatasetError, match="numbered 0 to 9999"):
        dataset.read_digit(FOLDER, number)


def test_an_upload_puts_each_file_in_its_channel_once(target: Target, bucket: str) -> None:
    events: list[Event] = []
    sent = dataset.upload(target, FOLDER, f"s3://{bucket}/datasets/mnist", events.append)
    again = dataset.upload(target, FOLDER, f"s3://{bucket}/datasets/mnist", events.append)
    keys = {item["Key"] for item in target.client("s3").list_objects_v2(Bucket=bucket)["Contents"]}
    assert (sent, again) == (4, 0)
    assert keys == {f"datasets/mnist/{file.channel}/{file.name}" for file in dataset.MNIST}
    assert (
        max(event.done_bytes for event in events if isinstance(event, Transferred)) == TOTAL_BYTES
    )
    assert isinstance(events[-1], Note)


def test_an_object_that_is_not_the_published_file_is_replaced(target: Target, bucket: str) -> None:
    s3, key = target.client("s3"), f"d/test/{dataset.TEST_LABELS.name}"
    dataset.upload(target, FOLDER, f"s3://{bucket}/d", lambda _: None)
    s3.put_object(Bucket=bucket, Key=key, Body=b"something else")
    assert dataset.upload(target, FOLDER, f"s3://{bucket}/d", lambda _: None) == 1
    assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == 10_008


def houses() -> Environment:
    environment = load_environment("dev", ROOT)
    return environment.model_copy(update={"workload": "houses", "project": "examples"})


def test_a_workloads_script_writes_what_is_uploaded(target: Target) -> None:
    bucket = Names(houses()).bucket("data")
    target.client("s3").create_bucket(Bucket=bucket)
    sent = [dataset.upload_workload(target, houses(), ROOT, lambda _: None) for _ in range(2)]
    keys = {item["Key"] for item in target.client("s3").list_objects_v2(Bucket=bucket)["Contents"]}
    prefix = Names(houses()).dataset_uri.removeprefix(f"s3://{bucket}/")
    assert sent == [2, 0]
    assert keys == {f"{prefix}/{channel}/people.csv" for channel in ("train", "test")}


def test_a_folder_is_uploaded_as_it_is(target: Target, bucket: str, tmp_path: Path) -> None:
    for name in ("train/a.csv", "train/more/b.csv", "test/c.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1,2\n")
    (tmp_path / "notes.txt").write_text("not a channel")
    assert dataset.upload_folder(target, tmp_path, f"s3://{bucket}/d", lambda _: None) == 3
    keys = {item["Key"] for item in target.client("s3").list_objects_v2(Bucket=bucket)["Contents"]}
    assert keys == {"d/train/a.csv", "d/train/more/b.csv", "d/test/c.csv"}


def test_a_folder_without_a_channel_is_refused(target: Target, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.csv").write_text("1\n")
    with pytest.raises(DatasetError, match="has no files in test/"):
        dataset.upload_folder(target, tmp_path, f"s3://{bucket}/d", lambda _: None)


def test_a_script_that_fails_is_told_by_its_last_line(target: Target, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "training_code" / "houses", tmp_path / "training_code" / "houses")
    script = tmp_path / "training_code" / "houses" / "prepare.py"
    script.write_text("raise SystemExit('no room left')")
    with pytest.raises(DatasetError, match=r"prepare\.py failed: no room left"):
        dataset.upload_workload(target, houses(), tmp_path, lambda _: None)


def test_a_script_that_writes_nothing_is_named(target: Target, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "training_code" / "houses", tmp_path / "training_code" / "houses")
    (tmp_path / "training_code" / "houses" / "prepare.py").write_text("def main(): pass")
    with pytest.raises(
        DatasetError, match=r"prepare\.py ended well, but wrote no .* train/ and te"
    ):
        dataset.upload_workload(target, houses(), tmp_path, lambda _: None)


def test_another_dataset_than_mnist_is_refused_with_where_its_files_go() -> None:
    with pytest.raises(
        DatasetError,
        match=r'data.dataset = "cifar10": only mnist .* s3://bucket/datasets/cifar10/train/',
    ):
        dataset.require_known("cifar10", "s3://bucket/datasets/cifar10")
