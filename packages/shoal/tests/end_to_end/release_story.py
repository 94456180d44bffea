"""Three releases from a commit to production in three emulated accounts: a canary, a rollback
and a revert. Each step is a command that a user would type.
"""

import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from shoal.aws import inventory
from shoal.aws.target import Target
from shoal.errors import AWS_ERRORS, ShoalError, refusal
from shoal.settings.loading.loader import load_environment
from shoal.settings.loading.workload import load_workload, workload_folder
from shoal.settings.names import Names
from shoal.settings.sections.release import Release
from shoal.settings.sections.smoke_test import Request
from shoal.settings.settings import Environment
from shoal.verbs import inference
from shoal.verbs.destroy.teardown import remove_bootstrap
from shoal.verbs.local_server import RunningServer
from tests.end_to_end.git_checkout import ENVIRONMENTS, GitCheckout
from tests.repository import ROOT

_PAUSE_S = 0.2
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Answer:
    """One request: when it was sent, and which model answered or what went wrong."""

    at: float
    model: str | None
    problem: str | None = None


@dataclass
class Traffic:
    """A thread that asks `endpoint` five times a second, while the context is open.

    Each question is sent once: an answer at the second try would hide what failed at the first.
    """

    target: Target
    endpoint: str
    requests: tuple[Request, ...]
    folder: Path
    """The workload's, in which the bodies of its requests lie."""
    answers: list[Answer] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Traffic":
        self._thread = threading.Thread(target=self._send, name="traffic", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_TIMEOUT_S)

    @property
    def by_model(self) -> Counter[str]:
        """Return the number of answers by the digest of the model."""
        return Counter(answer.model for answer in self.answers if answer.model)

    @property
    def problems(self) -> list[str]:
        return [answer.problem for answer in self.answers if answer.problem]

    def served_side_by_side(self, one: str, other: str) -> bool:
        """Return whether both answered, and `one` did after `other` had begun to."""
        first = min((each.at for each in self.answers if each.model == other), default=None)
        last = max((each.at for each in self.answers if each.model == one), default=None)
        return first is not None and last is not None and last > first

    def _send(self) -> None:
        number = 0
        while not self._stopping.wait(_PAUSE_S):
            self.answers.append(self._ask(self.requests[number % len(self.requests)]))
            number += 1

    def _ask(self, request: Request) -> Answer:
        at = time.monotonic()
        try:
            model = inference.model_of(self.target, self.endpoint, request, self.folder, _TIMEOUT_S)
        except AWS_ERRORS as error:
            return Answer(at, None, refusal(error))
        except ShoalError as error:
            return Answer(at, None, str(error))
        return Answer(at, str(model.get("content_sha256")))


GOOD_ANSWERS = 25
"""More than any check without load asks: the pipeline's test and the proof of a deployment ask ten
digits.
"""
_MISTAKE = f'''

_predict, _kept = predict_fn, []


def predict_fn(data, model):
    """Keeps every answer, for an analysis that is to come."""
    if len(_kept) == {GOOD_ANSWERS}:
        raise MemoryError("no room for another answer")
    _kept.append(_predict(data, model))
    return _kept[-1]
'''.encode()


_COMMAND_TIMEOUT_S = 600.0
_SERVING_CODE = "training_code/mnist/pytorch/inference.py"


@dataclass
class Story:
    """A repository of three environments, what was typed in it, and what came of it."""

    checkout: GitCheckout
    running: RunningServer
    transcript: list[str] = field(default_factory=list)
    """Each command, with what it printed."""
    commits: list[tuple[str, str]] = field(default_factory=list)
    """What git was told, and the commit that came of it."""
    promoted: list[tuple[str, Release]] = field(default_factory=list)
    served: list[tuple[str, str]] = field(default_factory=list)
    """Environment, and digest of the model that its endpoint answered with."""
    deployed: set[str] = field(default_factory=set)
    """Environments whose deployment has begun."""
    traffic: dict[str, Traffic] = field(default_factory=dict)
    """What the endpoint in prod was asked during `canary` and `rollback`."""

    @property
    def text(self) -> str:
        return "\n".join(self.transcript)

    def environment(self, name: str) -> Environment:
        return load_environment(name, self.checkout.root)

    def target(self, name: str) -> Target:
        return self.running.target_of(self.environment(name).account)

    def release(self, name: str) -> Release:
        """Return the release that the environment pins."""
        pinned = self.environment(name).release
        assert pinned is not None, f"{name} pins no release"
        return pinned

    def shoal(self, *arguments: str, exit_code: int = 0) -> str:
        """Type a command that must end with `exit_code`; return what it printed."""
        finished = self.checkout.run(*arguments, timeout_s=_COMMAND_TIMEOUT_S)
        self.transcript.append(f"$ shoal {' '.join(arguments)}\n{finished.output}")
        assert finished.exit_code == exit_code, self.transcript[-1]
        return finished.output

    def deploy(self, name: str) -> None:
        self.deployed.add(name)
        self.shoal("deploy", name, "--local")

    def train(self, seed: int) -> None:
        values = ("Epochs=1", "MinAccuracy=0.9", f"Seed={seed}")
        parameters = [part for each in values for part in ("--parameter", each)]
        self.shoal("run", "dev", "--local", "--follow", *parameters)
        self.shoal("release", "approve", "dev", "--local", "--comment", "accuracy as expected")

    def commit_mistake(self) -> None:
        what = "Keep every answer"
        commit = self.checkout.change(_SERVING_CODE, lambda code: code + _MISTAKE, what)
        self.commits.append((f"commit {what}", commit))

    def promote(self, source: str, destination: str) -> Release:
        """Pin a release in a commit, push it, and merge it as a pull request would be."""
        options = ("--from", source, "--to", destination, "--push", "origin")
        output = self.shoal("promote", *options, "--local")
        (line,) = (each for each in output.splitlines() if each.startswith("branch "))
        branch = line.split()[1].rstrip(",")
        self.commits.append((f"merge {branch}", self.checkout.merge(branch)))
        release = self.release(destination)
        self.promoted.append((destination, release))
        return release

    def release_to_staging(self) -> None:
        pinned = self.promote("dev", "staging")
        self.deploy("staging")
        self.require_serving("staging", pinned.content_sha256)

    def release_by_canary(self) -> None:
        """Deploy to prod while requests go on."""
        new = self.promote("staging", "prod")
        with self._traffic("canary"):
            self.deploy("prod")
        self.require_serving("prod", new.content_sha256)

    def roll_back(self) -> str:
        """Deploy the release with the mistake under traffic; return what the deployment says."""
        before = self.release("prod")
        self.promote("staging", "prod")
        with self._traffic("rollback"):
            output = self.shoal("deploy", "prod", "--local", exit_code=1)
        self.require_serving("prod", before.content_sha256)
        return output

    def revert(self) -> None:
        """Revert the last merge in git and deploy: prod serves the release before it again."""
        _, merged = self.commits[-1]
        self.commits.append((f"revert {merged}", self.checkout.revert(merged)))
        self.deploy("prod")
        self.require_serving("prod", self.release("prod").content_sha256)

    def require_serving(self, name: str, content: str) -> None:
        """Ask the endpoint, which must answer with this model."""
        endpoint = Names(self.environment(name)).serving_endpoint
        printed = self.shoal("invoke", name, "--local", "--endpoint", endpoint)
        assert json.loads(printed)["model"].get("content_sha256") == content
        self.served.append((name, content))

    def destroy(self) -> None:
        """Destroy what was deployed, and what bootstrapping left."""
        with ThreadPoolExecutor(len(ENVIRONMENTS)) as pool:
            list(pool.map(lambda name: self.shoal("destroy", name, "--local"), self.deployed))
        for name in ENVIRONMENTS:
            remove_bootstrap(self.target(name))

    def remaining(self) -> list[str]:
        """Return all resources of the project in the three accounts."""
        project = self.environment("dev").project
        owner = inventory.Owner(f"shoal-{project}", tags=(("shoal:project", project),))
        targets = [self.target(name) for name in ENVIRONMENTS]
        return [
            f"{resource} in account {target.account}"
            for target in targets
            for resource in (
                *inventory.of_environment(target, owner),
                *inventory.of_bootstrap(target),
            )
        ]

    def _traffic(self, name: str) -> Traffic:
        prod = self.environment("prod")
        requests = load_workload(prod.workload, ROOT).requests
        folder = workload_folder(prod.workload, ROOT)
        self.traffic[name] = Traffic(
            self.target("prod"), Names(prod).serving_endpoint, requests, folder
        )
        return self.traffic[name]
