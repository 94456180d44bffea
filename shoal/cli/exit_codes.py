"""The exit codes of `shoal`, as its help and the README tell them."""

OK, FAILED, USAGE, NOTHING_TO_DO, INTERRUPTED = 0, 1, 2, 3, 130
