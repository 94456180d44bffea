"""`python -m shoal.settings schema` writes the schemas of YAML files again, after a change of
`shoal.settings.settings` or `shoal.settings.loading.workload`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from shoal.settings.loading.schema import schema_texts


def main(arguments: list[str], root: Path) -> int:
    """Write the schemas; return 0, or 2 for wrong usage."""
    if arguments != ["schema"]:
        print("usage: python -m shoal.settings schema", file=sys.stderr)
        return 2
    for file, text in schema_texts().items():
        (root / file).write_text(text, encoding="utf-8")
        print(f"wrote {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
