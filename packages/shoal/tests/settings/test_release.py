"""Pinned releases: their file, whose registry and bucket they are of, and who takes them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from local_kit.tables import rows
from shoal.settings.loading.consumers import Consumer, consumers_of, left_out_of, pin_problems
from shoal.settings.loading.loader import load, load_environment
from shoal.settings.loading.release_file import pins_in, text_of
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.sections.release import Release, foreign_code_variable
from tests.settings.environment_file import (
    CONTENT,
    RELEASE,
    VALID,
    copy_workloads,
    lines_of,
    lines_with,
    write,
    write_settings,
)


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    pinned = VALID | {"release": RELEASE.model_dump(mode="json")}
    assert load(write_settings(tmp_path, pinned)).release == RELEASE


@pytest.mark.parametrize(("key", "value", "says"), rows(__file__, "sections.yaml", "no_pins"))
def test_what_does_not_pin_is_refused(tmp_path: Path, key: str, value: Any, says: str) -> None:
    (line,) = lines_with(tmp_path, {"release": CONTENT | {key: value}})
    assert line.startswith(f"environments/test.release.yaml:{_line_of(key)}: release.{key} = ")
    assert says in line


def _line_of(key: str) -> int:
    lines = text_of({"mnist": CONTENT}).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(f"  {key}:"))


def test_a_release_that_lacks_something_is_refused(tmp_path: Path) -> None:
    (line,) = lines_with(
        tmp_path,
        {"release": {key: value for key, value in CONTENT.items() if key != "image_digest"}},
    )
    says = "environments/test.release.yaml:2: release.image_digest: the key is missing; add it"
    assert line.startswith(says)


def test_odd_texts_survive(tmp_path: Path) -> None:
    odd = Release(
        **CONTENT
        | {
            "approved_by": 'Åsa "the # judge": \\ yes\u2028\x7f\U0001f600',
            "environment": {"A": "1e-3", "B": "null", "C": "\r\n\t"},
            "metrics": {"f1: macro": 1e-7, "n": 3, "yes": 1.0},
        }
    )
    pins = {"mnist": odd.model_dump(mode="json")}
    assert pins_in(text_of(pins)) == pins
    assert load(write_settings(tmp_path, VALID | {"release": pins["mnist"]})).release == odd


def test_the_file_is_the_same_whatever_was_pinned_first() -> None:
    pins = {name: RELEASE.model_dump(mode="json") for name in ("mnist", "prices")}
    assert text_of(pins) == text_of(dict(reversed(pins.items())))


@pytest.mark.parametrize(("text", "line"), rows(__file__, "sections.yaml", "no_pin_files"))
def test_a_file_that_pins_nothing_is_refused(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "test.release.yaml").write_text(text)
    (found,) = lines_with(tmp_path, {})
    assert found.startswith(f"environments/test.release.yaml:{line}")


def test_a_link_to_no_pins_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test.release.yaml").symlink_to("nowhere.yaml")
    (line,) = lines_with(tmp_path, {})
    assert line.startswith("environments/test.release.yaml: test.release.yaml is a link")


def test_a_release_in_the_environments_own_file_is_refused(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, yaml.safe_dump(VALID | {"release": CONTENT}, sort_keys=False))
    assert line == (
        "environments/test.yaml:5: release: is no key here any more:"
        " environments/test.release.yaml has what is pinned; take it out, commit that, and let"
        " `shoal promote` write that file"
    )


FOLLOWS = {"dev": None, "staging": "dev", "prod": "staging"}


def pin_lines(root: Path, name: str, sources: dict[str, str | None], **changes: Any) -> list[str]:
    """Return what is wrong with the pin of `name`, in a repository of these environments and
    their `promoted_from`.
    """
    copy_workloads(root)
    for each, source in sources.items():
        document = VALID | {"name": each} | ({"promoted_from": source} if source else {})
        if each == name:
            document["release"] = CONTENT | changes
        write_settings(root / "environments", document, each)
    return [each.line("") for each in pin_problems(load_environment(name, root), root)]


@pytest.mark.parametrize("name", ["staging", "prod", "dev"])
def test_what_promote_writes_is_right(tmp_path: Path, name: str) -> None:
    assert pin_lines(tmp_path, name, FOLLOWS) == []


@pytest.mark.parametrize(
    ("key", "before", "after", "says"), rows(__file__, "sections.yaml", "not_made_there")
)
def test_what_the_environment_that_trains_did_not_make_is_refused(
    tmp_path: Path, key: str, before: str, after: str, says: str
) -> None:
    (line,) = pin_lines(tmp_path, "prod", FOLLOWS, **{key: CONTENT[key].replace(before, after)})
    assert line.startswith(f"release.{key.replace('data_sha256', 'data_url')} = ")
    assert says in line
    assert line.endswith("take it out of the file, and let `shoal promote` write it")


def test_an_environment_that_trains_itself_pins_its_own(tmp_path: Path) -> None:
    assert len(pin_lines(tmp_path, "live", {"dev": None, "live": None})) == 2


def test_a_circle_has_nobody_who_trains(tmp_path: Path) -> None:
    says = r':\d+: promoted_from = "staging": goes in a circle: prod <- staging <- prod; remove it'
    with pytest.raises(ConfigError, match=says):
        pin_lines(tmp_path, "prod", {"staging": "prod", "prod": "staging"})


def test_an_overlay_closes_no_circle(tmp_path: Path) -> None:
    pin_lines(tmp_path, "prod", FOLLOWS)
    overlay = tmp_path / "environments" / "strategies" / "loop.yaml"
    overlay.parent.mkdir()
    overlay.write_text("promoted_from: prod\n")
    with pytest.raises(ConfigError, match=r"loop\.yaml:1: .* circle: dev <- prod <- staging"):
        load_environment("dev", tmp_path, "loop")


def test_variables_that_name_other_code_are_refused(tmp_path: Path) -> None:
    """Promoting refuses such a version; a person may have edited the file since."""
    variables = {"SAGEMAKER_SUBMIT_DIRECTORY": "s3://stranger/code.tar.gz"}
    (line,) = pin_lines(tmp_path, "staging", FOLLOWS, environment=variables)
    assert line.startswith("release.environment: SAGEMAKER_SUBMIT_DIRECTORY=s3://stranger/")


@pytest.mark.parametrize(
    ("environment", "message"), rows(__file__, "sections.yaml", "foreign_code")
)
def test_a_container_that_takes_its_code_from_elsewhere_is_found(
    environment: dict[str, str], message: str | None
) -> None:
    assert foreign_code_variable(environment) == message


ACCOUNTS = {"dev": "111122223333", "staging": "222233334444", "prod": "333344445555"}


def consumers(root: Path, sources: dict[str, str | None], **accounts: str) -> list[Consumer]:
    """Return the consumers of dev in a repository of these environments and their `promoted_from`,
    some in other `accounts`.
    """
    copy_workloads(root)
    for name, source in sources.items():
        promoted = f"promoted_from: {source}\n" if source else ""
        account = (ACCOUNTS | accounts)[name]
        text = f'name: {name}\nworkload: mnist\naccount: "{account}"\n{promoted}'
        write(root / "environments", text, name)
    return list(consumers_of(load_environment("dev", root), root))


ROLES = "arn:aws:iam::333344445555:role/shoal-mnist-prod-us-east-1-"


def test_a_consumer_has_its_account_and_the_role_that_brings_archives(tmp_path: Path) -> None:
    (prod,) = consumers(tmp_path, {"dev": None, "prod": "dev"})
    assert prod == Consumer("prod", ACCOUNTS["prod"], f"{ROLES}bring")


@pytest.mark.parametrize(
    ("sources", "accounts", "names", "left_out"), rows(__file__, "sections.yaml", "consumers")
)
def test_who_is_promoted_to_from_another_account_consumes_what_the_first_trains(
    tmp_path: Path,
    sources: dict[str, str | None],
    accounts: dict[str, str],
    names: list[str],
    left_out: list[str],
) -> None:
    assert [each.environment for each in consumers(tmp_path, sources, **accounts)] == names
    dev = load_environment("dev", tmp_path)
    assert [each.name for each in left_out_of(dev, tmp_path)] == left_out


def test_an_environment_that_is_promoted_to_is_nobodys_source(tmp_path: Path) -> None:
    consumers(tmp_path, FOLLOWS)
    assert consumers_of(load_environment("staging", tmp_path), tmp_path) == ()


def test_a_file_that_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"environments/prod\.yaml"):
        consumers(tmp_path, {"dev": None, "prod": "dev"}, prod="12")
