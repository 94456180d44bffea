"""One emulator for this folder's tests, and the runtime built once; both as a user would have
them.
"""

import dataclasses
import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from local_kit.runtime import ROOT
from local_kit.sagemaker_account import ACCOUNT_ID, Account, until
from shoal_local.processes import ProcessRegistry
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from shoal_local.sagemaker.core import Settings
from shoal_local.sagemaker.service import SageMakerService
from shoal_local.server import Emulator
from shoal_local.testing import LocalAccount, in_process

HOSTING_SPEED = 120.0


@pytest.fixture(scope="session")
def runtime() -> Path:
    """The PyTorch runtime's interpreter, built where it is missing."""
    return build(runtimes()["pytorch"], None, print)


@pytest.fixture(scope="package")
def emulator(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulator in this process, so that a test can look into it."""
    assert runtime.exists()
    folder = tmp_path_factory.mktemp("emulator")
    settings = Settings(accelerators=2, hosting_speed=HOSTING_SPEED, recipes=ROOT / "images")
    with in_process(folder, ACCOUNT_ID, settings=settings) as emulator:
        yield emulator


@pytest.fixture(scope="package")
def account(emulator: Emulator) -> Account:
    """The emulator's account, as its users see it."""
    return Account.at(LocalAccount.of(emulator))


def deployed(
    service: SageMakerService, account: Account, name: str, container: dict[str, Any], status: str
) -> dict[str, Any]:
    """Make a model, a configuration and an endpoint of this name in another service; return the
    endpoint once it has this status.
    """

    def handle(operation: str, **request: Any) -> Any:
        return service.handle(operation, request, "caller")

    variant = {"VariantName": "v", "ModelName": name, "InstanceType": "ml.m5.xlarge"}
    handle("CreateModel", ModelName=name, PrimaryContainer=container, ExecutionRoleArn=account.role)
    handle("CreateEndpointConfig", EndpointConfigName=name, ProductionVariants=[variant])
    handle("CreateEndpoint", EndpointName=name, EndpointConfigName=name)
    described: dict[str, Any] = until(
        lambda: handle("DescribeEndpoint", EndpointName=name),
        lambda each: each["EndpointStatus"] == status,
    )
    return described


def npy(values: list[Any]) -> bytes:
    """Return an array in NumPy's format."""
    buffer = io.BytesIO()
    np.save(buffer, np.array(values))
    return buffer.getvalue()


Services = Callable[..., SageMakerService]


@pytest.fixture
def second_service(emulator: Emulator, tmp_path: Path) -> Iterator[Services]:
    """Make another service behind the same endpoint, with its state in the test's folder."""
    with ExitStack() as services:

        def make(settings: Settings, **changes: Any) -> SageMakerService:
            registry = ProcessRegistry(tmp_path)
            context = dataclasses.replace(
                emulator.home.context(), state_dir=tmp_path, processes=registry, **changes
            )
            return services.enter_context(closing(SageMakerService(context, settings)))

        yield make
