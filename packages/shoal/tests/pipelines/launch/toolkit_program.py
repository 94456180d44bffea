"""A program for a runtime's Python: the commands that AWS's training toolkit starts for jobs.

Jobs are JSON on stdin; stdout has each command and its TF_CONFIG. The toolkit's own code reads the
hyperparameters, chooses the runner and builds the command. What would start or reach something is
replaced: GPUs, ssh, name resolution, the parameter server and TensorFlow, which only that needs. At
the end the command itself is caught.
"""

import importlib
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["SAGEMAKER_BASE_DIR"])


def write_job(job: dict[str, Any]) -> None:
    """Write the files that SageMaker puts into the container."""
    resources = {
        "current_host": job["host"],
        "hosts": job["hosts"],
        "network_interface_name": "eth0",
    }
    resources |= {
        "current_instance_type": job["instance_type"],
        "current_group_name": "homogeneousCluster",
    }
    for name, content in {
        "hyperparameters": job["hyperparameters"],
        "resourceconfig": resources,
        "inputdataconfig": {},
    }.items():
        (FOLDER / "input" / "config").mkdir(parents=True, exist_ok=True)
        (FOLDER / "input" / "config" / f"{name}.json").write_text(
            json.dumps(content), encoding="utf-8"
        )


def stand_in(toolkit: types.SimpleNamespace, caught: dict[str, Any]) -> None:
    def run(runner_type: Any = toolkit.runner.ProcessRunnerType, **options: Any) -> None:
        variables = dict(options["env_vars"])
        caught["tf_config"] = variables.get("TF_CONFIG")
        toolkit.environment.write_env_vars(variables)
        toolkit.runner.get(
            runner_type, options["user_entry_point"], options["args"], variables, None
        ).run(True, True)

    toolkit.entry_point.run = run
    toolkit.environment.num_gpus = lambda: 8
    toolkit.process.check_error = lambda command, *_, **__: caught.update(command=command)
    for module in (toolkit.smdataparallel, toolkit.mpi):
        module._start_sshd_daemon = lambda: None
        module._can_connect = lambda *_: True
        module._write_status_file = lambda *_: True
        module.time = types.SimpleNamespace(sleep=lambda _: None)


def command_of(framework: str, job: dict[str, Any]) -> dict[str, Any]:
    write_job(job)
    before = dict(os.environ)
    names = ("entry_point", "environment", "mapping", "mpi", "process", "runner", "smdataparallel")
    toolkit = types.SimpleNamespace(
        **{name: importlib.import_module(f"sagemaker_training.{name}") for name in names}
    )
    training: Any = importlib.import_module(f"sagemaker_{framework}_container.training")
    caught: dict[str, Any] = {}
    stand_in(toolkit, caught)
    environment = toolkit.environment.Environment()
    if framework == "tensorflow":
        training._run_ps = training._wait_until_master_is_down = lambda *_: None
        training.train(environment, toolkit.mapping.to_cmd_args(environment.hyperparameters))
    else:
        training._dns_lookup = training._set_torch_version_environment = lambda *_: None
        training.train(environment)
    os.environ.clear()
    os.environ.update(before)
    return caught


def main() -> None:
    (FOLDER / "code").mkdir()
    sys.modules["tensorflow"] = types.ModuleType("tensorflow")
    framework, jobs = sys.argv[1], json.load(sys.stdin)
    commands = []
    for job in jobs:
        (FOLDER / "code" / json.loads(job["hyperparameters"]["sagemaker_program"])).touch()
        commands.append(command_of(framework, job))
    Path(os.environ["FOUND"]).write_text(json.dumps(commands), encoding="utf-8")


if __name__ == "__main__":
    main()
