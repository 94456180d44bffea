"""The CDK entry: environment files in, a cloud assembly out.

`cdk ... -c environment=dev` takes one environment instead of all, `-c strategy=horovod` lays environments/strategies/horovod.yaml over it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from config.consumers import consumers_of
from config.errors import ConfigError
from config.loader import environment_names, load_environment
from stacks.node import use_installed_node

ROOT = Path(__file__).resolve().parent


def main() -> int:
    use_installed_node()
    from stacks.app import ShoalApp  # only now: importing the CDK starts Node.js

    # The CLI hands the feature flags over by itself; `python app.py` without the CLI gets the same ones.
    app = ShoalApp(context=json.loads((ROOT / "cdk.json").read_text())["context"])
    chosen, strategy = (app.node.try_get_context(key) for key in ("environment", "strategy"))
    try:
        environments = [load_environment(name, ROOT, strategy) for name in ([chosen] if chosen else environment_names(ROOT))]
        for environment in environments:
            for notice in app.add_environment(environment, root=ROOT, strategy=strategy, consumers=consumers_of(environment, ROOT)):
                print(f"{environment.name}: {notice}", file=sys.stderr)
        if not chosen:  # it belongs to an account, not to one of its environments
            app.add_delivery(environments)
            app.add_release_pipelines(environments)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
