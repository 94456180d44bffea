"""For `model.fit`: AWS documents no support for it, but its published scripts import this
module.
"""

from .. import *  # noqa: F403 - the names of the part without Keras
from . import callbacks as callbacks
