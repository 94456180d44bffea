"""The real MNIST files, uploaded over real HTTP."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

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


def test_another_dataset_than_mnist_is_refused_with_where_its_files_go() -> None:
    with pytest.raises(
        DatasetError,
        match=r'data.dataset = "cifar10": only mnist .* s3://bucket/datasets/cifar10/train/',
    ):
        dataset.require_known("cifar10", "s3://bucket/datasets/cifar10")
