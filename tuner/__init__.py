"""tuner: hyperparameter search for PyTorch image classifiers, on Ray Tune.

    from tuner import ExperimentSpec, run_experiment

ExperimentSpec       what trains, what is searched, what decides, what it may use
run_experiment       run the search of a spec; its Results
resume_experiment    go on with an interrupted search, by its folder; its Results
AskTell              a search whose trials run elsewhere: suggest, report, should_stop, complete
confirm              retrain the leaders of a search with fresh seeds; a Confirmation
refit                train the best config on training and validation images; its Results
soup                 combine the best trials into one model, a soup or an ensemble
constant             marks a list or a mapping in a space as one value, and not a domain
compare              put searches side by side; a Comparison
advise               what to change after a search, as findings
load_results         the Results of an experiment, by its name or its folder
Results              what a search came to: best trial, checkpoints, data frames
export_model         write the best model of Results into a folder, to be handed over
load_model           the model of an exported folder, without Ray
predict              the classes of image files by the model of an exported folder, without Ray
load_image           an image as the model of an exported folder takes it, without Ray
Learner              what to implement to bring your own training
trial_dir            inside a trial: its own folder, which is kept with it
start_dir            inside a trial: the directory where its search was started
report               inside a script that is a trial: report the metrics of an epoch

Errors: every one is a TunerError, whose text is the whole message. SpecError, UsageError
(NameTakenError), NoUsableTrialError, OutputError, InterruptedSearchError, and ExperimentError
(JournalError with JournalLostError, SearchClosedError, CheckpointError, StorageError, and DataError
with UnreadableImagesError): see `tuner.errors`.

The names are imported when they are first used: `import tuner` alone is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.errors import (
        CheckpointError,
        DataError,
        ExperimentError,
        InterruptedSearchError,
        JournalError,
        JournalLostError,
        NameTakenError,
        NoUsableTrialError,
        OutputError,
        SearchClosedError,
        SpecError,
        StorageError,
        TunerError,
        UnreadableImagesError,
        UsageError,
    )
    from tuner.experiment.results.comparison import compare
    from tuner.experiment.results.results import Results, load_results
    from tuner.reporting.advice import advise
    from tuner.search.ask_tell import AskTell
    from tuner.search.retraining import confirm, refit
    from tuner.search.run import resume_experiment, run_experiment
    from tuner.spec.experiment import ExperimentSpec
    from tuner.spec.space.domains import constant
    from tuner.trial.directories import start_dir, trial_dir
    from tuner.trial.learner import Learner
    from tuner.trial.script import report
    from tuner.vision.export.predict import predict
    from tuner.vision.export.read import load_image, load_model
    from tuner.vision.export.soup import soup
    from tuner.vision.export.write import export_model

__all__ = [
    "AskTell",
    "CheckpointError",
    "DataError",
    "ExperimentError",
    "ExperimentSpec",
    "InterruptedSearchError",
    "JournalError",
    "JournalLostError",
    "Learner",
    "NameTakenError",
    "NoUsableTrialError",
    "OutputError",
    "Results",
    "SearchClosedError",
    "SpecError",
    "StorageError",
    "TunerError",
    "UnreadableImagesError",
    "UsageError",
    "advise",
    "compare",
    "confirm",
    "constant",
    "export_model",
    "load_image",
    "load_model",
    "load_results",
    "predict",
    "refit",
    "report",
    "resume_experiment",
    "run_experiment",
    "soup",
    "start_dir",
    "trial_dir",
]

_MODULES = {
    "AskTell": "tuner.search.ask_tell",
    "ExperimentSpec": "tuner.spec.experiment",
    "Learner": "tuner.trial.learner",
    "Results": "tuner.experiment.results.results",
    "advise": "tuner.reporting.advice",
    "compare": "tuner.experiment.results.comparison",
    "confirm": "tuner.search.retraining",
    "constant": "tuner.spec.space.domains",
    "export_model": "tuner.vision.export.write",
    "load_image": "tuner.vision.export.read",
    "load_model": "tuner.vision.export.read",
    "load_results": "tuner.experiment.results.results",
    "predict": "tuner.vision.export.predict",
    "refit": "tuner.search.retraining",
    "report": "tuner.trial.script",
    "resume_experiment": "tuner.search.run",
    "run_experiment": "tuner.search.run",
    "soup": "tuner.vision.export.soup",
    "start_dir": "tuner.trial.directories",
    "trial_dir": "tuner.trial.directories",
}  # the others are in tuner.errors


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tuner' has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "tuner.errors")), name)


def __dir__() -> list[str]:
    return __all__
