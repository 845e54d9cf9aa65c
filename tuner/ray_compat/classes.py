"""Runs a class of Ray Tune's, a `ray.tune.Trainable`, inside of a trial of ours.

Tune would make it an actor, with a folder below its own, and write its checkpoints there. Here it
is a plain object in the process of a trial. Until: Tune takes a folder for each trial.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


# Without it: no class of Ray Tune's can be searched, only a Learner or a function
def make_class(kind: Any, config: dict[str, Any], *, trial: Any, folder: Path) -> Any:
    """Return an object of the class `kind` that trains `config`, and has `folder` as its logdir.

    trial: the Trainable that Tune has made, whose id and name it shares.
    """
    from ray.tune.result import TRIAL_INFO

    def _setup_logdir(self: Any) -> None:
        self._logdir = str(folder)

    _ = kind._setup_logdir
    named = {"_setup_logdir": _setup_logdir, "__module__": kind.__module__, "__doc__": kind.__doc__}
    in_folder = type(kind.__name__, (kind,), named)
    return in_folder(config={**config, TRIAL_INFO: trial._trial_info}, storage=None)


# Without it: no class of Ray Tune's can be searched, only a Learner or a function
def train_class(trained: Any) -> dict[str, Any]:
    """Train one iteration; the result with what Tune fills in. Raises what `step` does.

    `train` would raise a copy of it, which not every class of a user's can be made of.
    """
    raised: list[BaseException] = []

    def step() -> Any:
        try:
            return type(trained).step(trained)
        except BaseException as error:
            raised.append(error)
            raise

    trained.step = step
    try:
        result: dict[str, Any] = trained.train()
    except BaseException:
        if raised:
            raise raised[0] from None
        raise
    finally:
        del trained.step
    return result


# Without it: metrics of Tune's own stand among those of a class
def filled_in(trained: Any) -> set[str]:
    """Return the names that Tune adds to each result of a class."""
    from ray.air.constants import TRAINING_ITERATION
    from ray.tune.result import DONE, SHOULD_CHECKPOINT

    names = set(trained.get_auto_filled_metrics())
    return names | {DONE, SHOULD_CHECKPOINT, TRAINING_ITERATION}


# Without it: a class cannot be resumed: it would start anew
def restore_class(trained: Any, checkpoint: Path, *, iteration: int) -> None:
    """Let `trained` go on from the files of the folder `checkpoint`, as after `iteration` steps."""
    trained.restore(str(checkpoint))
    _ = trained._iteration
    trained._iteration = iteration
