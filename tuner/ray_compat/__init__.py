"""The one door to what Ray does not document: no module outside of this package touches any of it.

All was tried with Ray 2.60.0, and pyproject.toml allows no other minor version. Each function says
what it is for, until when it is needed, and what would be lost without it.
"""

# ruff: noqa: F403 - this is their face: callers need not know the module
from tuner.ray_compat.connection import *
from tuner.ray_compat.names import *
from tuner.ray_compat.parameters import *
from tuner.ray_compat.trainables import *
from tuner.ray_compat.tune import *
from tuner.ray_compat.workers import *
