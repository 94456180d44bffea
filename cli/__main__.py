"""`python -m cli` is `shoal`."""

import sys

from cli.main import main

sys.exit(main())
