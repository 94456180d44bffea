"""`python -m shoal.images [NAME [REGION [WORKLOAD]]]` lists the recipes, or prints the command that
builds one.
"""

from __future__ import annotations

import sys

from shoal.images import recipes


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is 0 fine, 2 wrong usage."""
    if not arguments:
        print("\n".join(recipes.names()))
        return 0
    name, region = (*arguments, "us-east-1")[:2]
    workload = arguments[2] if len(arguments) > 2 else None
    try:
        print(recipes.build_command(name, region, recipes.local_tag(name), workload))
    except recipes.UnknownRecipeError as error:
        print(f"images: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
