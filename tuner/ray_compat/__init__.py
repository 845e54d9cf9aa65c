"""The one door to what Ray does not document: no module outside of this package touches any of it.

All was tried with Ray `pieces.TRIED`. Each piece says what it is for, and until when it is needed;
its `lost` says what happens without it, which `tuner doctor` lists for a Ray that was not tried.
"""

# ruff: noqa: F403 - this is their face: who needs a piece need not know its module
from tuner.ray_compat.actors import *
from tuner.ray_compat.classes import *
from tuner.ray_compat.functions import *
from tuner.ray_compat.joined import *
from tuner.ray_compat.names import *
from tuner.ray_compat.own_ray import *
from tuner.ray_compat.parameters import *
from tuner.ray_compat.pieces import *
from tuner.ray_compat.tune import *
from tuner.ray_compat.watch import *
