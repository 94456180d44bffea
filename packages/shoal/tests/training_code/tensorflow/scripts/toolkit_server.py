"""Start the parameter server of TF_CONFIG's task with the training toolkit's own function.

Stays, as the toolkit does.
"""

import json
import os
import signal
from types import SimpleNamespace

from sagemaker_tensorflow_container import training

config = json.loads(os.environ["TF_CONFIG"])
hosts = [f"algo-{number}" for number, _ in enumerate(config["cluster"]["ps"], start=1)]
training._run_ps(
    SimpleNamespace(hosts=hosts, current_host=hosts[config["task"]["index"]]), config["cluster"]
)
signal.pause()
