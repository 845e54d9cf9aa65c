"""Heads that features can take the place of."""

import pytest
from test_transfer import plan

from tuner.errors import SpecError
from tuner.vision.network_head import check_head


@pytest.mark.parametrize("name", ["Scaled", "Shared"])
def test_a_head_that_does_not_give_the_logits_is_refused(name, snapshot):
    with snapshot.raises(SpecError):
        check_head(plan(name).initialize_model(), plan(name))


def test_a_head_that_gives_the_logits_is_taken():
    check_head(plan("Drawing").initialize_model(), plan("Drawing"))
