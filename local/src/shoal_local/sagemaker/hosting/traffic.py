"""Who answers an invocation: shares of fleets and weights of variants in; an instance, held until
its answer is there, out.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from shoal_local.errors import AwsError
from shoal_local.sagemaker.hosting.fleet import Fleet, Instance, Variant, close

_random = random.SystemRandom()


class Traffic:
    """The routes of one endpoint.

    An instance that is retired ends when it has answered what it was asked.
    """

    def __init__(self, endpoint: str, drain_s: float) -> None:
        self._endpoint, self._drain_s = endpoint, drain_s
        self._routes: list[tuple[Fleet, float]] = []
        self._changed = threading.Condition()

    def route(self, *routes: tuple[Fleet, float]) -> None:
        """Fleets and their shares of what comes from now on."""
        with self._changed:
            self._routes = [(fleet, share) for fleet, share in routes if share > 0]

    @property
    def is_open(self) -> bool:
        return bool(self._routes)

    def change(self, edit: Callable[[], None]) -> None:
        """Change weights or instances of a fleet while nobody chooses among them."""
        with self._changed:
            edit()

    @contextmanager
    def taken(self, target_variant: str | None) -> Iterator[tuple[Fleet, Variant, Instance]]:
        """An instance for one invocation.

        AwsError: no such variant, or as many invocations at once as a serverless one may have.
        """
        with self._changed:
            (fleet,) = _random.choices(
                [fleet for fleet, _ in self._routes], [share for _, share in self._routes]
            )
            variant = self._variant(fleet, target_variant)
            if variant.most_at_once is not None and variant.busy >= variant.most_at_once:
                raise AwsError(
                    "ThrottlingException",
                    f"Rate exceeded: {variant.most_at_once} concurrent invocations of"
                    f" {variant.name}",
                    429,
                )
            instance = _random.choice(variant.instances)
            instance.busy += 1
        try:
            yield fleet, variant, instance
        finally:
            with self._changed:
                instance.busy -= 1
                self._changed.notify_all()

    def _variant(self, fleet: Fleet, name: str | None) -> Variant:
        if name is None:
            (variant,) = _random.choices(fleet.variants, [each.weight for each in fleet.variants])
            return variant
        for variant in fleet.variants:
            if variant.name == name:
                return variant
        raise AwsError("ValidationError", f"Variant {name} of endpoint {self._endpoint} not found.")

    def retire(self, instances: Sequence[Instance]) -> None:
        """End instances that no route leads to any more, when what they were asked is answered."""
        with self._changed:
            self._changed.wait_for(lambda: not any(each.busy for each in instances), self._drain_s)
        close(each.server for each in instances)
