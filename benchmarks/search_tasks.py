"""The tasks of `benchmarks.search`: functions of a config to be minimised, in two splits.

The published figures are of `claims`. Settings were chosen on `tuning`. The splits share neither a
BBOB function nor a data set.
"""

# D hyperparameters

import contextlib
import math
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec

import numpy as np

from tuner.spec.space.parsing import parse_space
from tuner.spec.space.spaces import config_at


@dataclass(frozen=True)
class Task:
    """`evaluate(config)`: the true loss; `noise`: sd of what is added to it when it is told.

    optimum: the least loss there is, or None: then the least that any search of the run has seen
    stands for it.
    """

    name: str
    space: dict[str, object]
    evaluate: Callable[[dict], float] = field(repr=False)
    optimum: float | None = None
    noise: float = 0.0

    def random_losses(self, count=200):
        """Losses of random configs, the same in every run."""
        space, rng = parse_space(self.space), np.random.default_rng(2026)
        configs = [config_at(space, lambda _: rng.random()) for _ in range(count)]
        return np.array([self.evaluate(config) for config in configs])


@cache
def tasks(split):
    """The tasks of a split, by name."""
    warnings.simplefilter("ignore")
    bbob, learned = (_claims, _learned) if split == "claims" else (_tuning, _tuning_learned)
    functions = bbob() if find_spec("cocoex") else ()
    return {task.name: task for task in (*functions, *learned())}


def _claims():
    for function, dims in (
        *((1, 5), (3, 4), (5, 6), (6, 5), (8, 3), (10, 4), (11, 6), (12, 5)),
        *((13, 4), (15, 3), (16, 2), (17, 5), (20, 4), (21, 3), (23, 2), (24, 5)),
    ):
        yield _bbob(function, dims)
    for function in (8, 15, 21):
        yield _mixed(function)
    for function, dims in ((1, 4), (8, 3), (21, 3)):
        yield _bbob(function, dims, noisy=True)


def _learned():
    yield Task("digits svm", SVM, lambda config: _svm("digits", config))
    yield Task("digits mlp", NET, lambda config: _net("digits", config))
    yield Task("diabetes boosting", BOOSTING, lambda config: _boosting("diabetes", config))
    yield Task("wine conditional", CONDITIONAL, lambda config: _conditional("wine", config))
    yield Task("digits conditional", CONDITIONAL, lambda config: _conditional("digits", config))


def _tuning():
    for function, dims in ((2, 5), (4, 3), (7, 6), (9, 4), (14, 5), (18, 3), (19, 5), (22, 4)):
        yield _bbob(function, dims)
    for function in (9, 14):
        yield _mixed(function)
    for function, dims in ((2, 3), (14, 4)):
        yield _bbob(function, dims, noisy=True)


def _tuning_learned():
    yield Task("breast_cancer svm", SVM, lambda config: _svm("breast_cancer", config))
    yield Task("iris conditional", CONDITIONAL, lambda config: _conditional("iris", config))
    yield Task("iris boosting", BOOSTING, lambda config: _boosting("iris", config))


# COCO's black-box optimisation benchmark, bounds -5 to 5


@cache
def _problem(function, dims):
    """(the problem, its least value)."""
    import cocoex

    suite = cocoex.Suite("bbob", "instances: 1", "dimensions: 2,3,5,10")
    near = min(d for d in (2, 3, 5, 10) if d >= dims)
    problem = suite.get_problem_by_function_dimension_instance(function, near, 1)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        problem._best_parameter("print")
        (written,) = os.listdir(folder)
        x_best = np.loadtxt(written)
    return problem, float(problem(x_best)), x_best


def _bbob_value(function, x_D):
    problem, _, x_best = _problem(function, len(x_D))
    x = x_best.copy()  # coordinates beyond `dims` stay at their best
    x[: len(x_D)] = x_D
    return float(problem(x))


def _bbob(function, dims, noisy=False):
    space = {f"x{d}": "uniform(-5, 5)" for d in range(dims)}

    def evaluate(config):
        return _bbob_value(function, np.array([config[f"x{d}"] for d in range(dims)]))

    optimum = _problem(function, dims)[1]
    name = f"bbob f{function} {dims}d"
    if not noisy:
        return Task(name, space, evaluate, optimum)
    losses = Task(name, space, evaluate).random_losses()
    noise = 0.05 * float(np.subtract(*np.quantile(losses, [0.75, 0.25])))
    return Task(f"{name} noisy", space, evaluate, optimum, noise)


MIXED = {
    "a": "uniform(-5, 5)",
    "b": "loguniform(1e-4, 1e1)",
    "c": "randint(0, 21)",
    "d": "choice(['p', 'q', 'r', 's', 't', 'u'])",
    "e": "quniform(-5, 5, 0.25)",
}


def _mixed(function):
    places = dict(zip("pqrstu", (1.0, -3.0, 5.0, -5.0, 3.0, -1.0), strict=True))

    def evaluate(config):
        b = 2 * math.log10(config["b"]) + 3
        x_D = [config["a"], b, config["c"] / 2 - 5, places[config["d"]], config["e"]]
        return _bbob_value(function, np.array(x_D))

    return Task(f"mixed f{function} 5d", MIXED, evaluate)


# Models of scikit-learn on the data that it brings along: the loss of 3-fold cross-validation

SVM = {
    "C": "loguniform(1e-3, 1e4)",
    "gamma": "loguniform(1e-6, 1e1)",
    "tol": "loguniform(1e-5, 1e-1)",
    "shrinking": "choice([True, False])",
}
NET = {
    "units": "lograndint(4, 65)",
    "alpha": "loguniform(1e-7, 1)",
    "learning_rate_init": "loguniform(1e-4, 1)",
    "batch_size": "choice([16, 32, 64, 128])",
    "activation": "choice(['relu', 'tanh', 'logistic'])",
    "max_iter": "randint(2, 9)",
}
BOOSTING = {
    "learning_rate": "loguniform(1e-3, 1)",
    "n_estimators": "qrandint(10, 100, 10)",
    "max_depth": "randint(1, 7)",
    "min_samples_leaf": "lograndint(1, 65)",
    "subsample": "uniform(0.3, 1)",
    "max_features": "uniform(0.1, 1)",
}
CONDITIONAL = {
    "model": "choice([{'kind': 'svm', 'C': loguniform(1e-3, 1e3), 'gamma': loguniform(1e-5, 10)}, "
    "{'kind': 'knn', 'k': randint(1, 40), 'weights': choice(['uniform', 'distance'])}, "
    "{'kind': 'tree', 'depth': randint(1, 16), 'leaf': lograndint(1, 40)}])",
    "scale": "choice([True, False])",
    "components": "uniform(0.1, 1)",
}


@cache
def _data(name):
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:400]
    return x[rows], y[rows]


def _cross_validated(name, model, scoring):
    from sklearn.model_selection import cross_val_score

    x, y = _data(name)
    score = cross_val_score(model, x, y, cv=3, scoring=scoring, error_score=np.nan).mean()
    return 10.0 if not np.isfinite(score) else float(-score)


def _svm(name, config):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    settings = {**config, "max_iter": 20_000}
    return 1 + _cross_validated(name, make_pipeline(StandardScaler(), SVC(**settings)), "accuracy")


def _net(name, config):
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    settings = {**config, "hidden_layer_sizes": (config["units"],), "random_state": 0}
    del settings["units"]
    model = make_pipeline(StandardScaler(), MLPClassifier(**settings))
    return min(_cross_validated(name, model, "neg_log_loss"), 10.0)


def _boosting(name, config):
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    if name == "diabetes":
        model = GradientBoostingRegressor(**config, random_state=0)
        return _cross_validated(name, model, "neg_mean_squared_error")
    model = GradientBoostingClassifier(**config, random_state=0)
    return min(_cross_validated(name, model, "neg_log_loss"), 10.0)


def _conditional(name, config):
    from sklearn.decomposition import PCA
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    chosen = config["model"]
    if chosen["kind"] == "svm":
        model = SVC(C=chosen["C"], gamma=chosen["gamma"], max_iter=20_000)
    elif chosen["kind"] == "knn":
        model = KNeighborsClassifier(chosen["k"], weights=chosen["weights"])
    else:
        model = DecisionTreeClassifier(
            max_depth=chosen["depth"], min_samples_leaf=chosen["leaf"], random_state=0
        )
    columns = _data(name)[0].shape[1]
    steps = [StandardScaler()] if config["scale"] else []
    steps.append(PCA(max(1, round(config["components"] * columns)), random_state=0))
    return 1 + _cross_validated(name, make_pipeline(*steps, model), "accuracy")
