"""The version of the stand-in; the local part says in every log that this is not AWS's library."""

VERSION = "0.1.0+local"
