"""Everything the stand-in raises.

SMDDPError
├── SMDDPConfigurationError     the launcher, the instance type or a setting cannot work with smddp
├── SMDDPUnsupportedError       strict mode: AWS's library has no such operation
└── SMDDPLocalConflictError     AWS's own wheel is installed too

SMDDPPerformanceWarning         the call works on AWS, but smddp does not accelerate it there

The training toolkit imports this module by name and looks for the class names in a failed rank's
stderr.
"""


class SMDDPError(RuntimeError):
    """Base of every error of this package."""


class SMDDPConfigurationError(SMDDPError):
    """The launcher, the instance type or a setting cannot work with smddp."""


class SMDDPUnsupportedError(SMDDPError):
    """Strict mode refuses an operation that AWS's library does not have."""


class SMDDPLocalConflictError(SMDDPError, ImportError):
    """The stand-in and AWS's own wheel are installed in the same Python."""


class SMDDPPerformanceWarning(UserWarning):
    """The call works on AWS, but NCCL runs it there instead of smddp."""
