"""The files of all environments say who takes releases from one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.consumers import Consumer, consumers_of, left_out_of
from config.errors import ConfigError
from config.loader import load_environment
from config.release import Release
from config.release_text import with_release
from tests.config.environment_file import VALID, write
from tests.config.releases import CONTENT

ARN = "arn:aws:sagemaker:us-east-1:111122223333:model-package/shoal-mnist-dev/{}"
BUCKET = "s3://shoal-mnist-dev-artifacts-111122223333-us-east-1"
ACCOUNTS = {"dev": "111122223333", "staging": "222233334444", "prod": "333344445555"}


def consumers(root: Path, sources: dict[str, str | None], **more: str) -> list[Consumer]:
    """Return the consumers of dev in a repository with these environments and their
    `promoted_from`.

    `more` are other accounts for some of them.
    """
    (root / "environments").mkdir()
    for name, source in sources.items():
        promoted = f"promoted_from: {source}\n" if source else ""
        account = more.get(name, ACCOUNTS.get(name, VALID["account"]))
        write(root / "environments", f'name: {name}\naccount: "{account}"\n{promoted}', name)
    return list(consumers_of(load_environment("dev", root), root))


def release(number: int) -> Release:
    url = f"{BUCKET}/models/{str(number) * 64}/model.tar.gz"
    return Release(
        **CONTENT
        | {
            "model_package_arn": ARN.format(number),
            "model_package_version": number,
            "model_data_url": url,
        }
    )


def pinning(root: Path, pinned: Release) -> Path:
    """Return the same repository, with this release in staging's file."""
    file = root / "environments/staging.yaml"
    file.write_text(with_release(file.read_text(), pinned, "staging.yaml"))
    return root


def test_who_is_promoted_to_in_several_steps_consumes_what_the_first_trains(tmp_path: Path) -> None:
    readers = consumers(tmp_path, {"dev": None, "staging": "dev", "prod": "staging"})
    assert [(each.environment, each.account) for each in readers] == [
        ("prod", ACCOUNTS["prod"]),
        ("staging", ACCOUNTS["staging"]),
    ]
    assert (
        readers[0].serving_role_arn
        == "arn:aws:iam::333344445555:role/shoal-mnist-prod-us-east-1-serving-??????"
    )
    assert (
        readers[0].proof_role_arn
        == "arn:aws:iam::333344445555:role/shoal-mnist-prod-us-east-1-serving-proof"
    )


def test_a_consumer_reads_what_its_file_pins_and_what_that_replaced(tmp_path: Path) -> None:
    consumers(tmp_path, {"dev": None, "staging": "dev"})
    readers = consumers_of(
        load_environment("dev", tmp_path), pinning(tmp_path, release(4).replacing(release(3)))
    )
    assert [each.versions for each in readers] == [(ARN.format(4), ARN.format(3))]
    assert [each.archives for each in readers] == [
        (f"models/{'4' * 64}/model.tar.gz", f"models/{'3' * 64}/model.tar.gz")
    ]


@pytest.mark.parametrize(
    "url",
    [
        f"{BUCKET}/models/*/model.tar.gz",
        f"{BUCKET}/models/${{aws:username}}/model.tar.gz",
        f"{BUCKET}/training/4/output/model.tar.gz",
        "s3://shoal-mnist-dev-artifacts-111122223333-us-east-1/releases/4/model.tar.gz",
        "s3://shoal-mnist-dev-artifacts-111122223333-us-east-1/code/model.tar.gz",
        f"s3://another/models/{'4' * 64}/model.tar.gz",
    ],
)
def test_what_is_no_archive_of_a_training_is_not_shared_whatever_a_file_says(
    tmp_path: Path, url: str
) -> None:
    consumers(tmp_path, {"dev": None, "staging": "dev"})
    (consumer,) = consumers_of(
        load_environment("dev", tmp_path),
        pinning(tmp_path, release(4).model_copy(update={"model_data_url": url})),
    )
    assert (consumer.versions, consumer.archives) == ((ARN.format(4),), ())


def test_a_copy_of_its_own_needs_nothing_of_the_environment_that_trained_it(tmp_path: Path) -> None:
    consumers(tmp_path, {"dev": None, "staging": "dev"})
    own = Release(
        **CONTENT
        | {
            "model_package_arn": ARN.format(3).replace("dev", "staging"),
            "copied_from": ARN.format(3),
        }
    )
    (consumer,) = consumers_of(load_environment("dev", tmp_path), pinning(tmp_path, own))
    assert (consumer.versions, consumer.archives) == ((), ())


def test_an_environment_of_the_same_account_needs_no_policy(tmp_path: Path) -> None:
    assert [
        each.environment
        for each in consumers(tmp_path, {"dev": None, "staging": "dev"}, staging=ACCOUNTS["dev"])
    ] == []


def test_an_account_from_documentation_is_left_out_where_the_own_account_is_a_real_one(
    tmp_path: Path,
) -> None:
    sources = {"dev": None, "staging": "dev", "prod": "staging"}
    readers = consumers(tmp_path, sources, dev="210987654321", prod="345678901234")
    assert [each.environment for each in readers] == ["prod"]
    left_out = left_out_of(load_environment("dev", tmp_path), tmp_path)
    assert [each.name for each in left_out] == ["staging"]


def test_accounts_from_documentation_are_consumers_of_one_another(tmp_path: Path) -> None:
    readers = consumers(tmp_path, {"dev": None, "staging": "dev"})
    assert [each.environment for each in readers] == ["staging"]
    assert left_out_of(load_environment("dev", tmp_path), tmp_path) == ()


def test_an_environment_that_trains_for_itself_consumes_nothing(tmp_path: Path) -> None:
    assert [each.environment for each in consumers(tmp_path, {"dev": None, "prod": None})] == []


def test_an_environment_that_is_promoted_to_is_nobodys_source(tmp_path: Path) -> None:
    consumers(tmp_path, {"dev": None, "staging": "dev", "prod": "staging"})
    assert consumers_of(load_environment("staging", tmp_path), tmp_path) == ()


def test_an_environment_to_which_releases_are_copied_is_the_source_of_who_is_promoted_to_from_there(
    tmp_path: Path,
) -> None:
    consumers(tmp_path, {"dev": None, "staging": "dev", "prod": "staging"})
    staging, own = (
        load_environment("staging", tmp_path),
        CONTENT["model_package_arn"].replace("dev", "staging"),
    )
    copied = Release(
        **CONTENT | {"model_package_arn": own, "copied_from": CONTENT["model_package_arn"]}
    )
    assert [
        each.environment
        for each in consumers_of(staging.model_copy(update={"release": copied}), tmp_path)
    ] == ["prod"]
    assert consumers_of(staging.model_copy(update={"release": Release(**CONTENT)}), tmp_path) == ()


@pytest.mark.parametrize("now", [None, Release(**CONTENT)])
def test_a_copy_stays_readable_to_who_pins_or_replaced_it_when_the_next_release_is_none(
    tmp_path: Path, now: Release | None
) -> None:
    consumers(tmp_path, {"dev": None, "staging": "dev", "prod": "staging"})
    own = ARN.format(3).replace("111122223333", ACCOUNTS["staging"]).replace("dev", "staging")
    key = f"releases/{ACCOUNTS['dev']}/shoal-mnist-dev/3/{'2' * 64}/model.tar.gz"
    url = f"s3://shoal-mnist-staging-artifacts-{ACCOUNTS['staging']}-us-east-1/{key}"
    copied = Release(
        **CONTENT | {"model_package_arn": own, "model_data_url": url, "copied_from": ARN.format(3)}
    )
    staging, file = (
        load_environment("staging", tmp_path).model_copy(update={"release": now}),
        tmp_path / "environments/prod.yaml",
    )
    for pinned in (copied, release(4).replacing(copied)):
        file.write_text(with_release(file.read_text(), pinned, "prod.yaml"))
        assert [
            (each.environment, each.versions, each.archives)
            for each in consumers_of(staging, tmp_path)
        ] == [("prod", (own,), (key,))]


def test_a_circle_leads_to_nobody(tmp_path: Path) -> None:
    assert consumers(tmp_path, {"dev": None, "staging": "prod", "prod": "staging"}) == []


def test_a_file_that_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"environments/prod\.yaml"):
        consumers(tmp_path, {"dev": None, "prod": "dev"}, prod="12")
