"""Finds values in the lines of a job. It reads a list of regular expressions, then line after line,
each as JSON; for each line it writes its values as `[[position of the expression, text], ...]`.

It is a process of its own, since no other thread runs while Python matches an expression.
"""

import json
import re
import signal
import sys

LIMIT_S = 1.0
"""Processor time for a line. The kernel ends the process that exceeds it."""


def main() -> None:
    patterns = [re.compile(each) for each in json.loads(sys.stdin.readline())]
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
        values = [
            (position, match[1 if pattern.groups else 0])
            for position, pattern in enumerate(patterns)
            for match in pattern.finditer(json.loads(line))
        ]
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
