"""What a search came to, in words, as JSON and as an exit code."""

import json

import pytest
import synthetic
from fresh import ran
from synthetic import Writer, make_folder

from tuner.cli.outcome import print_outcome
from tuner.experiment.results.results import Results
from tuner.spec.experiment import IMAGE_CLASSIFIER


def test_some_failed_trials_are_exit_code_3(digits, ended, capsys):
    assert print_outcome(ended, evaluate=False, as_json=False) == 0
    assert print_outcome(Results(digits), evaluate=False, as_json=True) == 3
    text, _, document = capsys.readouterr().out.partition("{")
    assert "Best trial 00000" in text
    assert json.loads("{" + document)["test"] is None


def test_print_outcome_without_evaluation_imports_no_torch(ended):
    code = """
        import sys
        from tuner.cli.outcome import print_outcome
        from tuner.experiment.results.results import Results
        print_outcome(Results(sys.argv[1]), evaluate=False, as_json=False)
    """
    assert "torch" not in ran(code, ended.folder).modules


LOADING = """
    import sys
    import time
    from tuner.cli.outcome import preload_evaluation
    from tuner.experiment.results.results import Results
    spec = Results(sys.argv[1]).spec
    with preload_evaluation(spec, evaluate=True):
        while "tuner.vision.export.evaluate" not in sys.modules:
            time.sleep(0.01)
            if Results(sys.argv[1]).trials["00000"].last_epoch == 0:
                break
"""


@pytest.mark.parametrize("values", [[], [0.5]])
def test_evaluation_is_loaded_once_a_trial_has_reported(here, values):
    writer = Writer(make_folder(here / "x", trainable=IMAGE_CLASSIFIER))
    writer.trial(0, values, end=None)
    loaded = "tuner.vision.export.evaluate" in ran(LOADING, writer.folder).modules
    assert loaded == bool(values)


@pytest.mark.parametrize("as_json", [False, True])
def test_print_outcome_without_usable_trial_is_exit_code_1(here, capsys, as_json):
    bad = Results(synthetic.ended(here / "results/bad", ("nan", "m")))
    assert print_outcome(bad, evaluate=True, as_json=as_json) == 1
    printed = capsys.readouterr()
    why = ". Trial 00000: m" if as_json else ""  # of which the summary tells
    assert printed.err == f"error: bad has no usable trial: 1 failed (nan){why}\n"
    assert (
        as_json or "\nFailed trials\n  1 nan, first trial 00000\n    m\n" in printed.out
    )
    assert "failed" in printed.out
