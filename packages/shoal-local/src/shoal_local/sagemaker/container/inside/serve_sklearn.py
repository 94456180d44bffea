"""The program of an inference container of scikit-learn or XGBoost: AWS's own Flask application
behind gunicorn.

The package sagemaker-containers has the application, the encodings, and the transformer that calls
model_fn, input_fn, predict_fn and output_fn. Stand-ins and their reasons:

- The image's own package, which is in no registry, adds defaults (aws/sagemaker-scikit-learn-
  container, serving.py): text becomes float32, and a prediction is `model.predict`.
- The image installs the user's script with pip. Here it is imported from its folder, because a
  container neither reaches a registry nor writes to its runtime.
- nginx, which passes requests on to gunicorn in the image, is left out.
- One worker serves where SAGEMAKER_MODEL_SERVER_WORKERS does not say how many. The image starts one
  for each core, each with a copy of the model.
- XGBoost's image has defaults that read libsvm. Here a script for it has to have all functions.
- A model that cannot be loaded ends the container. The image tries again at each ping.
"""

from __future__ import annotations

import collections
import collections.abc
import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from gevent import monkey
from gunicorn.app.base import BaseApplication

MODEL_FAILED = 3
"""Exit code when the model could not be loaded."""

_FUNCTIONS = ("model_fn", "input_fn", "predict_fn", "output_fn", "transform_fn")


def application() -> Any:
    """Return the Flask application with the user's model loaded; raise what model_fn raises."""
    # Python 3.10 removed the old name, and AWS's image puts it back into sagemaker-containers.
    collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]
    framework: Any = importlib.import_module("sagemaker_containers.beta.framework")
    environment = framework.env.ServingEnv()
    framework.files.download_and_extract(environment.module_dir, framework.env.code_dir)
    if (Path(framework.env.code_dir) / "requirements.txt").exists():
        sys.stderr.write(
            "requirements.txt is not installed by the emulator: what it names must be in the"
            " runtime.\n"
        )
    sys.path.insert(0, framework.env.code_dir)
    module = importlib.import_module(environment.module_name)
    functions = {name: getattr(module, name) for name in _FUNCTIONS if hasattr(module, name)}
    if "transform_fn" not in functions:
        is_xgboost = "xgboost" in os.environ.get("SAGEMAKER_SERVING_MODULE", "")
        if is_xgboost and (missing := set(_FUNCTIONS[:4]) - set(functions)):
            raise NotImplementedError(
                f"the emulator has no default of XGBoost's image for {', '.join(sorted(missing))}:"
                f" write it into {environment.module_name}.py"
            )
        functions = defaults(framework) | functions
    transformer = framework.transformer.Transformer(**functions)
    transformer.initialize()
    return framework.worker.Worker(
        transformer.transform,
        module_name=environment.module_name,
        execution_parameters_fn=getattr(module, "execution_parameters_fn", None),
    )


def defaults(framework: Any) -> dict[str, Any]:
    """Return the image's own input_fn and predict_fn; the package has the other two."""

    def input_fn(data: Any, content_type: str) -> Any:
        array = framework.encoders.decode(data, content_type)
        is_text = content_type in framework.content_types.UTF8_TYPES
        return array.astype("float32") if is_text else array

    return {"input_fn": input_fn, "predict_fn": lambda data, model: model.predict(data)}


class Server(BaseApplication):  # type: ignore[misc]
    """Run gunicorn with the image's settings.

    Each worker loads the model itself, as in the image: OpenMP's threads, which XGBoost starts, do
    not survive a fork.
    """

    def load_config(self) -> None:
        port = os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080")
        self.cfg.set("bind", f"127.0.0.1:{port}")
        self.cfg.set("worker_class", "gevent")
        self.cfg.set("workers", int(os.environ.get("SAGEMAKER_MODEL_SERVER_WORKERS", "1")))
        self.cfg.set("timeout", int(os.environ.get("SAGEMAKER_MODEL_SERVER_TIMEOUT", "60")))
        self.cfg.set("control_socket_disable", True)

    def load(self) -> Any:
        try:
            return application()
        except Exception:  # noqa: BLE001 (whatever a user's model_fn raises goes to the log)
            traceback.print_exc()
            sys.exit(MODEL_FAILED)  # gunicorn ends with the same code: the worker cannot start


if __name__ == "__main__":
    monkey.patch_all()  # before anything is imported that gunicorn's gevent workers would patch
    Server().run()
