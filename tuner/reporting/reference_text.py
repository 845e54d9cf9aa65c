"""The sentences of the reference that no single key says; tests run its examples."""

from __future__ import annotations

HEAD = """
# The spec, key by key

This page is the output of `tuner spec`, and `make reference` writes it anew.

```console
$ tuner spec search.space   # one section
$ tuner spec max_t          # one key
```

A spec has the same keys in Python, in YAML and on the command line:

```yaml
# my_spec.yaml
training: {model: cnn, dataset: digits, width: 32}
search:
  strategy: hyperopt
  space:
    lr: loguniform(1e-3, 1)
    batch_size: choice([16, 32, 64])
scheduler: {max_t: 5}
num_samples: 8
```

```python
# my_spec.py
from ray import tune

from tuner import ExperimentSpec


def experiment():
    return ExperimentSpec(
        training={"model": "cnn", "dataset": "digits", "width": 32},
        search={
            "strategy": "hyperopt",
            "space": {"lr": tune.loguniform(1e-3, 1), "batch_size": tune.choice([16, 32, 64])},
        },
        scheduler={"max_t": 5},
        num_samples=8,
    )
```

```console
$ tuner validate my_spec.yaml
$ tuner validate my_spec.py
$ tuner validate digits --search hyperopt training.width=32 scheduler.max_t=5 num_samples=8
```
"""

SECTIONS_FOLLOW = """
The sections `training`, `search`, `objective`, `scheduler`, `resources`, `timeouts`, `checkpoints`
and `stop` follow below. Only `search.space` is required, and `num_samples` unless the search is a
grid or has a time budget.
"""

TRAINABLE = """
`trainable` names a Learner, or a function that builds one. For a Learner of your own, the section
`training` holds whatever it needs: all names there are yours. `--data-dir DIR` sets
`training.data_dir`, so a Learner reads `constants["data_dir"]`; the folder must exist.
"""

FUNCTIONS = """
A plain function of Ray Tune is given `config` alone; `tuner confirm` adds the trial's `seed` to it.
Put the constants of a function into `search.space`. `{command: [python, train.py, --lr, "{lr}"]}`
runs [any script](your_training.md#a-script-as-it-is).
"""

TRAINING = """
If `trainable` is not set, the built-in image classifier trains. These are its settings. Each may be
searched instead: `search.space.lr` in place of `training.lr`.
"""

SEARCH = """
How configs are chosen, and from what. Each strategy takes these keys and its own, which follow;
[extending](extending.md) shows how to write another one.
"""

SCHEDULER = """
Which trials are stopped, and when. Without `scheduler.name` it is `asha`; with the strategy
`bayesopt` it is `forecast`, unless you set a key that only `asha` has. `tuner validate` shows which
one it is. `scheduler: none` trains every trial to its end. Each scheduler takes these keys and its
own.
"""

CONSTANT = """
A domain is one of these calls as text, or Ray's own object: `tune.loguniform(1e-4, 1e-1)`. The text
is parsed and never evaluated. Anything else in a space is a constant, the same in every trial. So
is a list, a pair or `{min: 1, max: 5}`; a warning says so, unless you write
`constant([1, 2])` (in Python also `tuner.constant`). `sample_from` is refused: compute
what follows from other hyperparameters in the trainable, from its config. A nested mapping is a
space of its own. All strategies take all domains.
"""

CONDITIONAL = """
An option of a choice may be a mapping. It is a branch: a space of its own, and only the trials that
take it have its names. Branches may have names in common, and choices of their own.

```python
# conditional.py
from ray import tune

from tuner import ExperimentSpec


def train(config):
    layer = config["layer"]  # {"activation": "relu", "mult": 1.3} or {"activation": "tanh"}
    for _ in range(5):
        tune.report({"loss": config["lr"] * layer.get("mult", 1)})


def experiment():
    return ExperimentSpec(
        trainable=train,
        search={
            "space": {
                "lr": "loguniform(1e-4, 1e-1)",
                "layer": "choice([{'activation': 'relu', 'mult': uniform(1, 2)}, "
                "{'activation': 'tanh'}])",
            },
            "forbid": ["layer.mult > 1.5 and lr > 0.05"],
        },
        objective={"metric": "loss", "mode": "min"},
        num_samples=20,
    )
```

```console
$ tuner validate conditional.py
```

In YAML it is the same text in quotes. Ray's objects nest in the same way. All strategies search
branches: hyperopt, bayesopt and bohb learn about a branch from the trials that took it, and a grid
lists the cells of each. In `forbid`, a name inside a branch is `layer.mult`.
"""
