"""What Ray says of a death, as a failure."""

import pytest
from ray.exceptions import NodeDiedError, OutOfMemoryError, RayActorError

from tuner.errors import FAILURE_KINDS
from tuner.training.deaths import death_of


def died(text):
    return RayActorError(error_msg=text)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (None, "crash", "its process is gone"),
        (died("The actor is dead because its worker process has died."), "crash", "its process"),
        (died("The actor died because its node has died. Id: 1"), "node_lost", "the node"),
        (died("an error raised in its creation task,\n no module"), "crash", "task, no module"),
        (NodeDiedError("x"), "node_lost", "the node"),
        (OutOfMemoryError("1 GB used"), "oom", "1 GB used"),
        (RuntimeError("could not\n  unpickle"), "crash", "could not unpickle"),
    ],
)
def test_deaths_have_a_kind_and_one_line(error, kind, message):
    death = death_of(error)
    assert (death.kind, "\n" in death.message) == (kind, False)
    assert message in death.message
    assert kind in FAILURE_KINDS
