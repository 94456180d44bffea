"""The two errors of shoal-local.

- `EmulatorError`: the emulator itself cannot start or go on (a bad option, a port, a stale
  process); the command line prints it.
- `AwsError`: a refusal or failure that the caller of an API gets as code, message and HTTP status.
"""


class EmulatorError(Exception):
    """The emulator cannot start or go on; `str()` is one sentence for a person."""


class AwsError(Exception):
    """An error answer of an AWS API: `code` and `message` as AWS documents them."""

    def __init__(self, code: str, message: str, http_status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.http_status = http_status
