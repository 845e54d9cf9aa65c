"""The one thing to implement to bring your own training: a `Learner`.

    class MyLearner:
        metrics = ("train_loss", "val_loss", "val_accuracy")

        def __init__(self, config, constants, *, device, rank, world_size): ...
        def step(self): ...                    # one epoch
        def state_dict(self): ...
        def load_state_dict(self, state): ...
        def test(self): ...                    # optional, for `tuner evaluate`

An experiment names it by its dotted path, `trainable="my_package.my_module:MyLearner"`, or names a
function that builds it, with the arguments of `__init__`. It does not know the search and needs
no Ray: built by hand it trains in a plain Python process. To check an implementation, inherit
`LearnerContract` in its test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch


@runtime_checkable
class Learner(Protocol):
    """What a trial trains with: three methods, and a few optional members.

    `metrics: tuple[str, ...]` on the class names what `step` reports. A spec whose objective is
    none of them is then refused before anything starts. A function that builds Learners may have
    the attribute, too.

    `test() -> dict[str, float]` measures the held-out test split; `tuner evaluate` calls it, and
    it should report `test_loss` and `test_accuracy`. With `images`, how many it measured, the
    accuracy gets an interval; with `baseline`, the share of the largest class, it is compared. If
    it sets the attribute `confusion`, {classes: names, matrix: a row a true class, a column a
    predicted one}, each class's accuracy is shown.

    `stays_in_start_dir = True` on the class lets a trial work where the search was started, and not
    in a folder of its own: see `tuner.trial_dir` and `tuner.start_dir`.

    `copies_state = True` on the class says that `state_dict` returns copies, which no further step
    changes. Without it the trial copies a state before it is written beside training.

    With several ranks every rank holds its own Learner. `torch.distributed` is initialised, and
    every method is called on all ranks in the same order.
    """

    def step(self) -> dict[str, float]:
        """Train one epoch, validate, and return the metrics, already reduced over the ranks.

        One step is one epoch with any number of ranks: the scheduler's `max_t` and
        `grace_period` count steps. A non-finite value is reported as it is.

        With `"done": True` among the metrics this epoch is the trial's last one: it is completed,
        and no resume trains it longer. With several ranks rank 0's report counts.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, the same on every rank.

        Only tensors and plain values (dict, list, str, numbers, None), so that it loads with
        `torch.load(weights_only=True)`. An export takes the model's weights from the key "model".
        """
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state`, in a new Learner or a used one, without changing `state`.

        The steps that follow must give what they would have given without the interruption.
        """
        ...


class LearnerFactory(Protocol):
    """How a Learner is built: its class, or any function with this signature."""

    def __call__(
        self,
        config: Mapping[str, Any],
        constants: Mapping[str, Any],
        /,
        *,
        device: torch.device,
        rank: int,
        world_size: int,
    ) -> Learner:
        """Build the Learner of one trial.

        `config` holds the trial's hyperparameters and nothing else. `constants` holds the spec's
        `training` section, plus `epochs` (the longest the trial may train, in epochs) and `seed`
        (of this trial; all randomness should come from it). `rank` is in [0, world_size). Where
        the spec splits the model there is one more argument, `split`, the number of stages. It
        equals the world size, and this Learner is stage `rank`.
        """
        ...
