"""The errors that only the stand-in raises.

HorovodLocalError
├── NotInitializedError       a function was called before init()
├── UnsupportedError          Horovod has it, the stand-in does not
└── HorovodConflictError      the real Horovod is installed too
"""


class HorovodLocalError(Exception):
    """Base of every error of this package."""


class NotInitializedError(HorovodLocalError, ValueError):
    """A function was called before init(); Horovod raises a ValueError."""


class UnsupportedError(HorovodLocalError):
    """Horovod has it, the stand-in does not."""


class HorovodConflictError(HorovodLocalError, ImportError):
    """The stand-in and the real Horovod are installed in the same Python."""
