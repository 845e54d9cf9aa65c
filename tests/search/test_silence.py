import logging
import warnings

from ray.widgets import util

from tuner.search import silence


def test_in_a_notebook_ray_reports_nothing(monkeypatch):
    monkeypatch.setattr(util, "in_notebook", lambda: True)
    assert silence.reporter().should_report([], done=True) is False


def test_elsewhere_ray_is_left_as_it_is():
    """It would warn of a reporter that it does not use."""
    assert silence.reporter() is None


def test_nobody_is_asked_for_widgets(monkeypatch):
    monkeypatch.setattr(logging.getLogger("ray.widgets.util"), "level", logging.INFO)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        silence.without_widgets()
        warnings.warn("IProgress not found. Please update jupyter", stacklevel=1)
        warnings.warn("another", stacklevel=1)
    assert [str(one.message) for one in told] == ["another"]
    assert not util.logger.isEnabledFor(logging.INFO)
