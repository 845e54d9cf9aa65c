"""Runs a plain Tune function or a `ray.tune.Trainable` inside of a trial of ours.

Without it only a Learner or a command can be searched.

Tune would wrap a function at the driver, and send it by pickling. Here a worker imports it by its
dotted path, and does with a Trainable of ours what Ray's FunctionTrainable does with itself, in the
thread of Ray's session. Until: Tune takes a dotted path, hands over what a function saves, and goes
on from it.

Tune would make a class an actor, with a folder below its own, and write its checkpoints there. Here
it is a plain object in the process of a trial. Until: Tune takes a folder for each trial.

What `tune.with_parameters` holds Ray keeps in its object store, and drops what it was made of: once
that Ray has ended, nothing is left. Until: it lasts as long as the function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary


class Report(NamedTuple):
    """What a plain function has reported.

    raw: as Tune has it. metrics: without what Ray adds; None once the function has returned.
    checkpoint: the folder of what was reported with them.
    """

    raw: dict[str, Any]
    metrics: dict[str, Any] | None
    checkpoint: Path | None


def as_tune_calls(function: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    """Return `function` so that what it yields or returns is reported, as in Tune, and its end."""
    from ray.tune.trainable import wrap_function

    wrapped: Any = wrap_function(function)
    return partial(wrapped._trainable_func, None)


def begin_function(trial: Any, call: Callable[[dict[str, Any]], Any]) -> bool:
    """Have `call` run in a thread of its own from the next report on, given the trial's config.

    trial: a Trainable. Returns False where the thread of the trial before goes on.
    """
    from ray.train._internal.session import get_session
    from ray.tune.trainable import FunctionTrainable

    _ = FunctionTrainable._trainable_func
    trial._trainable_func = call
    if get_session() is None:
        FunctionTrainable.setup(trial, trial.config)
        return True
    return bool(FunctionTrainable.reset_config(trial, trial.config))


def next_report(trial: Any) -> Report:
    """Let the function of `trial` go on until its next report. Raises what it raises."""
    from ray.air.constants import TIMESTAMP
    from ray.train.constants import CHECKPOINT_DIR_NAME
    from ray.tune.result import RESULT_DUPLICATE, SHOULD_CHECKPOINT
    from ray.tune.trainable import FunctionTrainable

    raw = FunctionTrainable.step(trial)
    saved = trial._last_training_result.checkpoint
    checkpoint = Path(saved.path) if saved else None
    if RESULT_DUPLICATE in raw:
        return Report(raw, None, checkpoint)
    rays = (TIMESTAMP, SHOULD_CHECKPOINT, CHECKPOINT_DIR_NAME)
    return Report(raw, {k: v for k, v in raw.items() if k not in rays}, checkpoint)


def ended() -> dict[str, Any]:
    """Return what a trial reports that has ended with its last report: nothing new."""
    from ray.tune.result import RESULT_DUPLICATE

    return {RESULT_DUPLICATE: True}


# Without it: a trial may find the function of the one before still at work
def end_thread(timeout_s: float) -> bool:
    """End the function's thread, at its next report; return whether it has ended in time.

    A function may catch what is to end it, or take long to clear away.
    """
    from ray.train._internal.session import get_session

    session: Any = get_session()
    if session is None or not session.training_started:
        return True
    session.finish(timeout=timeout_s)
    return not session.training_thread.is_alive()


# Without it: the thread of a function goes on until its process ends
def end_function(trial: Any) -> None:
    """End the function's thread, at its next report, and the session."""
    from ray.train._internal.session import get_session
    from ray.tune.trainable import FunctionTrainable

    if get_session() is not None:
        FunctionTrainable.cleanup(trial)


# Without it: get_trial_dir() is a folder of Ray's, which goes with the search
def name_trial_dir(folder: Path) -> None:
    """Let `tune.get_context().get_trial_dir()` return `folder`."""
    from ray.train._internal.session import get_session

    session: Any = get_session()
    _ = session.trial_info.logdir
    session.trial_info.logdir = str(folder)


# Without it: a function cannot be resumed: it would start anew
def continue_from(checkpoint: Path) -> None:
    """Let `tune.get_checkpoint()` return the files of the folder `checkpoint`."""
    from ray.train._internal.session import get_session
    from ray.tune import Checkpoint

    session: Any = get_session()
    _ = session.loaded_checkpoint
    session.loaded_checkpoint = Checkpoint.from_directory(checkpoint)


# Without it: a function that keeps checkpoints fails where --storage is a URL
def admit_storage() -> None:
    """Let Ray keep a function's checkpoint in a folder of this machine.

    It looks there for a mark that the driver has set, in what it takes for a shared folder.
    """
    from ray.train._internal.session import get_session
    from ray.train._internal.storage import _VALIDATE_STORAGE_MARKER_FILENAME

    session: Any = get_session()
    folder = Path(session.storage.experiment_fs_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _VALIDATE_STORAGE_MARKER_FILENAME).touch()


# Without it: a function that ends by sys.exit(0) fails without saying so
def is_raised_by_ray(error: SystemExit) -> bool:
    """Return whether Ray ends the function's thread with it, and not the function itself."""
    from ray.train._internal.session import _TrainSession

    *_, (frame, _) = walk_tb(error.__traceback__)
    return frame.f_code is _TrainSession._report_training_result.__code__


# Without it: each failure of a function is called StartTraceback
def error_of_function(error: BaseException) -> BaseException | None:
    """Return what the function raised, without what Ray wraps around it.

    Ray's own way copies the exception, which not every class of a user's can do.
    """
    from ray.air._internal.util import StartTraceback

    while isinstance(error, StartTraceback) and error.__cause__ is not None:
        error = error.__cause__
    return error


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


_known: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def note_parameters(trainable: Any) -> None:
    """Keep what `trainable` holds, unless Ray has it already."""
    for registry in _registries(trainable):
        if registry.to_flush:
            _known[registry] = dict(registry.to_flush)


def renew_parameters(trainable: Any) -> None:
    """Hand what `trainable` holds to the Ray of the moment, if there is one."""
    import ray

    for registry in _registries(trainable):
        if registry in _known:
            registry.references.clear()
            registry.to_flush.update(_known[registry])
            if ray.is_initialized():
                registry.flush()


def _registries(trainable: Any) -> Iterator[Any]:
    module: Any = sys.modules.get("ray.tune.registry")  # whoever has called it has imported it
    if module is None:
        return
    while isinstance(trainable, partial):
        trainable = trainable.func
    classes = trainable.__mro__ if isinstance(trainable, type) else ()
    for function in (trainable, *(vars(each).get("setup") for each in classes)):
        for cell in getattr(function, "__closure__", None) or ():
            if isinstance(cell.cell_contents, module._ParameterRegistry):
                yield cell.cell_contents
