"""The repository's app for tests: ShoalApp with the stacks of `stacks/`."""

from collections.abc import Mapping
from typing import Any

from shoal.constructs import app
from stacks.delivery import DeliveryStack
from stacks.platform import EnvironmentStage


class ShoalApp(app.ShoalApp):
    """As app.py makes it, without its own validation where `checked` is false."""

    def __init__(
        self,
        *,
        outdir: str | None = None,
        context: Mapping[str, Any] | None = None,
        checked: bool = True,
    ) -> None:
        super().__init__(
            stage=EnvironmentStage,
            delivery=DeliveryStack,
            outdir=outdir,
            context=context,
            checked=checked,
        )
