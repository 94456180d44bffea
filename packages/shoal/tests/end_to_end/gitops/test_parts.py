"""Parts of the story of releases: side-by-side answers, and the mistake in the third release."""

from __future__ import annotations

import io
import tarfile
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from shoal.aws.target import Target
from shoal.settings.loading.loader import load_workloads
from shoal.settings.sections.smoke_test import Request
from tests.cli.trained import archive
from tests.end_to_end.gitops.broken_release import GOOD_ANSWERS, with_mistake, without_mistake
from tests.end_to_end.gitops.checkout import ENVIRONMENTS, GitCheckout
from tests.end_to_end.gitops.traffic import Answer, Traffic
from tests.repository import ROOT

NOWHERE = Target("111122223333", "us-east-1", "http://localhost:1")


def traffic(*answers: Answer) -> Traffic:
    return Traffic(NOWHERE, "endpoint", (), Path(), list(answers))


def test_two_releases_served_side_by_side_when_the_old_one_answered_after_the_new_one() -> None:
    answers = traffic(Answer(1, "old"), Answer(2, "new"), Answer(3, "old"), Answer(4, "new"))
    assert answers.served_side_by_side("old", "new")
    assert answers.by_model == {"old": 2, "new": 2}


@pytest.mark.parametrize("order", [["old", "old", "new"], ["old"], ["new"], []])
def test_one_after_the_other_is_not_side_by_side(order: list[str]) -> None:
    assert not traffic(
        *(Answer(at, weights) for at, weights in enumerate(order))
    ).served_side_by_side("old", "new")


def test_an_endpoint_that_is_not_there_is_a_problem_and_no_answer(tmp_path: Path) -> None:
    (tmp_path / "row.json").write_text("[1]")
    with Traffic(NOWHERE, "endpoint", (Request(body="row.json"),), tmp_path) as answers:
        while not answers.answers:
            pass
    assert answers.problems
    assert not answers.by_model


CODE = b"def predict_fn(data, model):\n    return data\n"


def test_the_mistake_shows_only_after_as_many_answers_as_tests_ask_for() -> None:
    module: dict[str, Any] = {}
    exec(with_mistake(CODE), module)
    assert len(signature(module["predict_fn"]).parameters) == 2, "the serving toolkit counts them"
    assert [module["predict_fn"](number, None) for number in range(GOOD_ANSWERS)] == list(
        range(GOOD_ANSWERS)
    )
    with pytest.raises(MemoryError):
        module["predict_fn"](0, None)


def test_an_archive_that_was_mended_by_hand_has_the_same_files_without_the_mistake() -> None:
    mended = without_mistake(
        archive(
            {
                "model.pt": b"weights",
                "code/inference.py": with_mistake(CODE),
                "code/model.py": b"network",
            }
        )
    )
    with tarfile.open(fileobj=io.BytesIO(mended), mode="r:gz") as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    assert files == {"model.pt": b"weights", "code/inference.py": CODE, "code/model.py": b"network"}


def test_a_second_workload_has_a_section_of_its_own_and_the_first_one_what_it_had(
    tmp_path: Path,
) -> None:
    environ = {"PATH": "/usr/bin:/bin"}
    one, two = (
        GitCheckout.new(tmp_path / str(second), ROOT, environ, tmp_path / "emulator", second)
        for second in (None, "houses")
    )
    for name in ENVIRONMENTS:
        (alone,) = load_workloads(name, one.root)
        first, second = load_workloads(name, two.root)
        assert (first.title, second.title) == (f"{name} mnist", f"{name} houses")
        assert (first.training, first.serving) == (alone.training, alone.serving)
        assert (second.serving is None) == (name == "dev")


def test_the_repository_is_clean_has_a_remote_and_asks_for_nothing_of_the_users(
    tmp_path: Path,
) -> None:
    environ = {"PATH": "/usr/bin:/bin", "GIT_DIR": "elsewhere"}
    made = GitCheckout.new(tmp_path / "git", ROOT, environ, tmp_path / "emulator")
    assert made.git("status", "--porcelain") == ""
    assert made.git("ls-remote", "origin", "main").split()[0] == made.head()
    assert "release" not in (made.root / "environments" / "prod.yaml").read_text()
