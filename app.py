"""The CDK's entry point: writes the templates of all environments.

`cdk ... -c environment=dev` takes one environment, `-c strategy=horovod` lays
environments/strategies/horovod.yaml over it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from config.errors import ConfigError
from stacks.node import use_installed_node

ROOT = Path(__file__).resolve().parent


def main() -> int:
    use_installed_node()
    from stacks.app import ShoalApp, feature_flags  # starts Node.js

    app = ShoalApp(context=feature_flags(ROOT))
    try:
        notices = app.add_checkout(ROOT)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    for notice in notices:
        print(notice, file=sys.stderr)
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
