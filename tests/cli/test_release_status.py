"""What environments pin compared with what is there: in the emulator's registry, bucket and image repository, and behind an endpoint."""

from __future__ import annotations

from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from config.loader import load_environment
from config.release import Release
from lifecycle.errors import NotFoundError
from lifecycle.release_status import Answer, Places, compare
from lifecycle.target import Target
from tests.cli.test_promote import pinned, promoted
from tests.cli.trained import Checkout, Package, Registry

STATUS = ("release", "status")


def lines(checkout: Checkout, capsys: pytest.CaptureFixture[str], *environments: str) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = checkout.shoal(*STATUS, *environments)
    return code, capsys.readouterr().out.splitlines()


@pytest.fixture
def staged(released: Checkout, registry: Registry) -> tuple[Checkout, Package]:
    """A checkout whose staging pins a version of its own."""
    package = registry.approved()
    released.merge(promoted(released, package))
    return released, package


def test_what_is_as_pinned_agrees(staged: tuple[Checkout, Package], capsys: pytest.CaptureFixture[str]) -> None:
    checkout, package = staged
    code, printed = lines(checkout, capsys, "dev", "staging")
    assert code == 0
    assert f"staging: pins {package.arn}" in printed
    assert [line for line in printed if not line.startswith("  ok ")] == ["dev: pins no release", f"staging: pins {package.arn}"]


def test_an_approval_that_was_taken_back_disagrees(
    staged: tuple[Checkout, Package], registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout, package = staged
    registry.judge(package, "Rejected")
    code, printed = lines(checkout, capsys, "staging")
    assert code == 1
    assert any(line.startswith("  DIFFERS registry: Rejected") for line in printed)


def test_a_pinned_archive_that_was_removed_for_good_disagrees(
    staged: tuple[Checkout, Package], registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout, package = staged
    key = package.model.removeprefix(f"s3://{registry.bucket}/")
    registry.s3.delete_object(Bucket=registry.bucket, Key=key, VersionId=pinned(checkout).model_data_version_id)
    code, printed = lines(checkout, capsys, "staging")
    assert code == 1
    assert f"  DIFFERS model data: {package.model} is gone in the pinned version" in printed


def test_an_image_that_is_gone_disagrees(released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    image, repository = registry.own_image()
    released.merge(promoted(released, registry.approved(image=image)))
    registry.target.client("ecr").delete_repository(repositoryName=repository, force=True)
    code, printed = lines(released, capsys, "staging")
    assert code == 1
    assert any(line.startswith(f"  DIFFERS image: ECR has no {image}@") for line in printed)


def test_where_nobody_can_be_asked_no_agreement_is_claimed(released: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = lines(released, capsys, "prod")
    assert code == 1
    assert any(line.startswith("  unknown live: not known: the emulator plays account 111122223333") for line in printed)


class Serving:
    """Stands for an account with an endpoint (ServingStack is to come): every description it is asked for is of the one it has."""

    def __init__(self, arn: str | None) -> None:
        self._arn = arn

    def client(self, _service: str) -> Serving:
        return self

    def describe_endpoint(self, EndpointName: str) -> dict[str, Any]:  # noqa: N803 - AWS's name
        if self._arn is None:
            raise ClientError(
                {"Error": {"Code": "ValidationException", "Message": f'Could not find endpoint "{EndpointName}"'}}, "DescribeEndpoint"
            )
        return {"EndpointConfigName": "config", "EndpointStatus": "InService"}

    def describe_endpoint_config(self, **_: str) -> dict[str, Any]:
        return {"ProductionVariants": [{"ModelName": "model"}]}

    def describe_model(self, **_: str) -> dict[str, Any]:
        return {"Containers": [{"ModelPackageName": self._arn}]}


def live(release: Release | None, served: str | None) -> Answer:
    """The answer about the endpoint; nobody can be asked about the rest."""

    def nobody() -> Target:
        raise NotFoundError("there is no registry here")

    *_, answer = compare(release, Places(registry=nobody, serving=lambda: cast(Target, Serving(served))), "shoal-mnist-staging")
    return answer


def test_an_endpoint_that_serves_the_pinned_version_agrees(staged: tuple[Checkout, Package]) -> None:
    checkout, package = staged
    answer = live(pinned(checkout), package.arn)
    assert (answer.agrees, answer.says) == (True, f"shoal-mnist-staging is InService and serves {package.arn}")


def test_an_endpoint_that_serves_another_version_disagrees(staged: tuple[Checkout, Package]) -> None:
    checkout, package = staged
    assert live(pinned(checkout), f"{package.arn}0").agrees is False


def test_an_endpoint_disagrees_where_nothing_is_pinned(released: Checkout) -> None:
    assert load_environment("dev", released.root).release is None
    assert (live(None, "some package").agrees, live(None, None).agrees) == (False, True)
