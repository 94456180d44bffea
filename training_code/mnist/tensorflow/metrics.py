"""Prints the lines that SageMaker's metric definitions look for; collects the model's metadata."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from plan import Plan
from stopping import EXIT_CODE


class Metrics:
    """One process's view of the run; all but the first process are silent."""

    def __init__(
        self,
        plan: Plan,
        strategy: str,
        *,
        printing: bool = True,
        processes: int | None = None,
        parts: Mapping[str, int] | None = None,
    ) -> None:
        """`parts` counts what takes part in so many `processes`.

        The default is a rank in its own process for each of the plan's replicas. The world size is
        the number of replicas or, if there are more of them, of workers among the parts.
        """
        self._plan = plan
        parts = parts or {"ranks": plan.replicas}
        self._world_size = max(plan.replicas, parts.get("workers", 0))
        self._strategy = strategy
        self._printing = printing
        self._started_at = self._since = time.monotonic()
        self._since_step = 0
        self._accuracy = 0.0
        self.say(
            f"strategy={strategy} world_size={self._world_size} global_batch={plan.global_batch}"
        )
        counts = {"processes": processes or plan.replicas, **parts}
        self.say(" ".join(f"{name}={count}" for name, count in counts.items()))

    def say(self, line: str) -> None:
        """Print once per job."""
        if self._printing:
            print(line, flush=True)

    def resumed(self, done: int) -> None:
        """Print where a run continues that has `done` steps behind it; nothing for a new one."""
        self._since_step = done
        if done:
            epoch, step = divmod(done - 1, self._plan.steps_per_epoch)
            self.say(
                f"resumed at epoch={epoch + 1} step={step + 1} from"
                f" {self._plan.options.checkpoint_dir}"
            )

    def due(self, step: int) -> bool:
        """Return whether a line is printed after `step` (from 1).

        Only then does a process wait for the loss.
        """
        return self._plan.looks(step)

    def trained(self, epoch: int, step: int, loss: float) -> None:
        """Print the loss of a step. Raise ValueError if it is not a number any more."""
        if not math.isfinite(loss):
            raise ValueError(
                f"the loss is {loss} at epoch {epoch} step {step}: try a smaller --learning-rate"
            )
        done = (epoch - 1) * self._plan.steps_per_epoch + step
        rate = self._plan.learning_rate(done - 1)
        speed = (
            (done - self._since_step) * self._plan.global_batch / (time.monotonic() - self._since)
        )
        self.say(
            f"epoch={epoch} step={step}/{self._plan.steps_per_epoch} train_loss={loss:.6f}"
            f" learning_rate={rate:.6f} images_per_second={speed:.1f}"
            f" elapsed_s={self._elapsed_s():.1f} world_size={self._world_size}"
        )
        self._since, self._since_step = time.monotonic(), done

    def stopped(self, epoch: int, step: int) -> int:
        """Print that the run ends early, and return the exit code."""
        self.say(
            f"stopped on SIGTERM at epoch={epoch} step={step}; the checkpoint is in"
            f" {self._plan.options.checkpoint_dir}"
        )
        return EXIT_CODE

    def tested(self, epoch: int, sums: Any, images: int) -> None:
        """Print the result of `model.test_sums` over all `images` of the test set."""
        loss, self._accuracy = float(sums[0]) / images, float(sums[1]) / images
        self.say(
            f"epoch={epoch} test_loss={loss:.6f} test_accuracy={self._accuracy:.4f}"
            f" elapsed_s={self._elapsed_s():.1f}"
        )
        self._since = time.monotonic()

    def metadata(self) -> dict[str, Any]:
        """Return what model.json says about the run that ends here."""
        return {
            **self._plan.identity,
            "training_job_name": self._plan.options.job_name,
            "strategy": self._strategy,
            "world_size": self._world_size,
            "test_accuracy": self._accuracy,
        }

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started_at
