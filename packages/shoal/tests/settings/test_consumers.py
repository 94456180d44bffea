"""The files of all environments say who takes releases from one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.settings.loading.consumers import Consumer, consumers_of, left_out_of
from shoal.settings.loading.loader import load_environment
from shoal.settings.parsing.errors import ConfigError
from tests.settings.environment_file import VALID, copy_workloads, write

ACCOUNTS = {"dev": "111122223333", "staging": "222233334444", "prod": "333344445555"}


def consumers(root: Path, sources: dict[str, str | None], **more: str) -> list[Consumer]:
    """Return the consumers of dev in a repository with these environments and their
    `promoted_from`.

    `more` are other accounts for some of them.
    """
    copy_workloads(root)
    for name, source in sources.items():
        promoted = f"promoted_from: {source}\n" if source else ""
        account = more.get(name, ACCOUNTS.get(name, VALID["account"]))
        text = f'name: {name}\nworkload: mnist\naccount: "{account}"\n{promoted}'
        write(root / "environments", text, name)
    return list(consumers_of(load_environment("dev", root), root))


def test_who_is_promoted_to_in_several_steps_consumes_what_the_first_trains(tmp_path: Path) -> None:
    readers = consumers(tmp_path, {"dev": None, "staging": "dev", "prod": "staging"})
    assert [(each.environment, each.account) for each in readers] == [
        ("prod", ACCOUNTS["prod"]),
        ("staging", ACCOUNTS["staging"]),
    ]
    assert readers[0].role_arn == "arn:aws:iam::333344445555:role/shoal-mnist-prod-us-east-1-bring"


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


def test_a_circle_leads_to_nobody(tmp_path: Path) -> None:
    assert consumers(tmp_path, {"dev": None, "staging": "prod", "prod": "staging"}) == []


def test_a_file_that_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"environments/prod\.yaml"):
        consumers(tmp_path, {"dev": None, "prod": "dev"}, prod="12")
