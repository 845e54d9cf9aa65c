"""The searches that the benchmarks compare, all behind `ask(number) -> config` and `tell`."""

import warnings

from tuner.spec.space.domains import Choice, Normal
from tuner.spec.space.parsing import parse_space


class Ours:
    """One of tuner's searchers, or random search where `build` gives that."""

    def __init__(self, build, task, seed, max_t=None):
        self.search = build(task.space, seed, max_t)

    def ask(self, number):
        config = self.search.suggest(f"{number:05d}")
        return config if isinstance(config, dict) else None

    def report(self, number, value, epoch):
        self.search.on_trial_result(f"{number:05d}", _result(value, epoch))
        return False

    def tell(self, number, value, epoch=1):
        self.search.on_trial_complete(f"{number:05d}", _result(value, epoch))


class Optuna:
    """An Optuna sampler; `report` tells of intermediate values, `tell` of the end."""

    def __init__(self, sampler, task, seed, max_t=None):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore")
        self.study = optuna.create_study(
            sampler=getattr(optuna.samplers, sampler)(seed=seed)
        )
        self.state = optuna.trial.TrialState
        self.space = parse_space(task.space)
        self.max_t = max_t
        self.trials = {}

    def ask(self, number):
        self.trials[number] = self.study.ask()
        return self._resolved(self.space, "", self.trials[number])

    def report(self, number, value, epoch):
        self.trials[number].report(value, epoch)

    def tell(self, number, value, epoch=1):
        trial = self.trials[number]
        if self.max_t and epoch < self.max_t:
            trial.report(value, epoch)
            self.study.tell(trial, state=self.state.PRUNED)
        else:
            self.study.tell(trial, value)

    def _resolved(self, space, path, trial):
        config = {}
        for key, value in space.items():
            here = f"{path}.{key}"
            if isinstance(value, Choice):
                number = trial.suggest_categorical(here, list(range(len(value.values))))
                value = value.values[number]
                if isinstance(value, dict):
                    value = self._resolved(value, f"{here}{number}", trial)
            elif isinstance(value, Normal):
                raise NotImplementedError("Optuna has no normal domain")
            elif hasattr(value, "compute_value"):
                step = {} if value.step is None or value.log else {"step": value.step}
                suggest = trial.suggest_int if value.integer else trial.suggest_float
                if value.integer and step:
                    step = {"step": int(value.step)}
                low = value.first
                high = value.last
                if value.integer:
                    low = int(low)
                    high = int(high)
                value = suggest(here, low, high, log=value.log, **step)
            config[key] = value
        return config


def _result(value, epoch):
    return {"loss": value, "training_iteration": epoch}


ENGINES = {  # of other packages: name -> settings
    "bayesian-optimization": {
        "strategy": "bayesopt",
        "engine": "bayesian-optimization",
    },
    "hyperopt-library": {"strategy": "hyperopt", "engine": "hyperopt"},
}


def _ours(name):
    """What builds tuner's searcher of this name."""
    chosen = ENGINES.get(name, {"strategy": name})

    def build(space, seed, max_t):
        from tuner.spec.sections import Objective
        from tuner.spec.strategies import SEARCHERS

        settings = SEARCHERS.load_settings(chosen["strategy"])(space=space, **chosen)
        objective = Objective(metric="loss", mode="min")
        return settings.build(seed, objective=objective, max_t=max_t)

    return build


def method(name, task, seed, max_t=None):
    """The search of this name on a task."""
    if name.startswith("optuna"):
        sampler = {"optuna-tpe": "TPESampler", "optuna-gp": "GPSampler"}[name]
        return Optuna(sampler, task, seed, max_t)
    return Ours(_ours(name), task, seed, max_t)
