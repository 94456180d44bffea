"""Who takes releases from an environment, by the files of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.consumers import Consumer, consumers_of
from config.errors import ConfigError
from config.loader import load_environment
from config.release import Release
from tests.config.environment_file import VALID, write
from tests.config.test_release import CONTENT

ACCOUNTS = {"dev": "111122223333", "staging": "222233334444", "prod": "333344445555"}


def consumers(root: Path, sources: dict[str, str | None], **more: str) -> list[Consumer]:
    """Of dev, in a repository whose environments take releases from each other like this; `more` are other accounts for some."""
    (root / "environments").mkdir()
    for name, source in sources.items():
        promoted = f"promoted_from: {source}\n" if source else ""
        account = more.get(name, ACCOUNTS.get(name, VALID["account"]))
        write(root / "environments", f'name: {name}\naccount: "{account}"\n{promoted}', name)
    return list(consumers_of(load_environment("dev", root), root))


def test_who_is_promoted_to_in_several_steps_consumes_what_the_first_trains(tmp_path: Path) -> None:
    found = consumers(tmp_path, {"dev": None, "staging": "dev", "prod": "staging"})
    assert [(each.environment, each.account) for each in found] == [("prod", ACCOUNTS["prod"]), ("staging", ACCOUNTS["staging"])]
    assert found[0].serving_role_arn == "arn:aws:iam::333344445555:role/shoal-mnist-prod-us-east-1-serving-??????"
    assert found[0].proof_role_arn == "arn:aws:iam::333344445555:role/shoal-mnist-prod-us-east-1-serving-proof"


def test_an_environment_of_the_same_account_needs_no_policy(tmp_path: Path) -> None:
    assert [each.environment for each in consumers(tmp_path, {"dev": None, "staging": "dev"}, staging=ACCOUNTS["dev"])] == []


def test_an_environment_that_trains_for_itself_consumes_nothing(tmp_path: Path) -> None:
    assert [each.environment for each in consumers(tmp_path, {"dev": None, "prod": None})] == []


def test_an_environment_that_is_promoted_to_is_nobodys_source(tmp_path: Path) -> None:
    consumers(tmp_path, {"dev": None, "staging": "dev", "prod": "staging"})
    assert consumers_of(load_environment("staging", tmp_path), tmp_path) == ()


def test_an_environment_to_which_releases_are_copied_is_the_source_of_who_is_promoted_to_from_there(tmp_path: Path) -> None:
    consumers(tmp_path, {"dev": None, "staging": "dev", "prod": "staging"})
    staging, own = load_environment("staging", tmp_path), CONTENT["model_package_arn"].replace("dev", "staging")
    copied = Release(**CONTENT | {"model_package_arn": own, "copied_from": CONTENT["model_package_arn"]})
    assert [each.environment for each in consumers_of(staging.model_copy(update={"release": copied}), tmp_path)] == ["prod"]
    assert consumers_of(staging.model_copy(update={"release": Release(**CONTENT)}), tmp_path) == ()


def test_a_circle_leads_to_nobody(tmp_path: Path) -> None:
    assert consumers(tmp_path, {"dev": None, "staging": "prod", "prod": "staging"}) == []


def test_a_file_that_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"environments/prod\.yaml"):
        consumers(tmp_path, {"dev": None, "prod": "dev"}, prod="12")
