"""`python -m images [NAME [REGION [WORKLOAD]]]` lists the recipes, or prints the command that
builds one; `python -m images lint` checks what SageMaker needs of them.
"""

from __future__ import annotations

import sys

from images import dockerfile, lint, recipes


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is 0 fine, 1 a rule is broken, 2 wrong usage."""
    if arguments == ["lint"]:
        return _lint()
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


def _lint() -> int:
    mistakes = [
        f"images/{name}/Dockerfile:{mistake}"
        for name in recipes.names()
        for mistake in lint.mistakes_in(
            dockerfile.parse(recipes.dockerfile_of(name).read_text(encoding="utf-8"))
        )
    ]
    print("\n".join(mistakes) or "every recipe keeps the rules")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
