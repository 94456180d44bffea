"""`python -m shoal.imports` imports what the commands do, so that its bytecode is there, a tenth of
the CDK's 176 MB of Python, and the CDK's library is unpacked. Most processes write neither.
"""

import importlib
import pkgutil

_WHOLE = ("shoal.cli", "shoal.constructs", "stacks")
"""Packages; the last one is the repository's in the working directory."""


def main() -> None:
    """Import the packages with all of their modules, and the emulator with moto's services."""
    for name in _WHOLE:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith(("__main__", ".agent")):  # which needs the extra mcp
                importlib.import_module(module.name)
    importlib.import_module("shoal_local.server")
    router = importlib.import_module("shoal_local.control.service_router")
    for service in router.MOTO_SERVICES:
        importlib.import_module(f"moto.{service}.urls")


if __name__ == "__main__":
    main()
