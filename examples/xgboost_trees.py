"""XGBoost: a round of boosting is an epoch, and poor trials stop after a few rounds.

Replace the data. Needs `pip install xgboost`, or `xgboost-cpu` where there is no GPU. After
`tuner export xgboost_trees --to best`, `xgboost.Booster(model_file="best/checkpoint/model.ubj")` is
the best model.

    $ tuner run examples/xgboost_trees.py
    xgboost_trees: completed in 19s
    9 trials: 3 completed, 6 stopped

    Best trial 00003, epoch 27 of 27, completed
      val_loss   0.3723
      val_error  0.1058
    Its config
      eta        0.6165
      max_depth  6
      subsample  0.6607

    Results      results/xgboost_trees
    Report       tuner report xgboost_trees
    TensorBoard  tuner tensorboard xgboost_trees
"""

import xgboost
from ray import tune
from ray.tune.integration.xgboost import TuneReportCheckpointCallback
from sklearn.datasets import load_digits

ROUNDS = 27  # trees for each class; a report after each round is an epoch


def train(config):
    x, y = load_digits(return_X_y=True)
    training = xgboost.DMatrix(x[:1400], y[:1400])
    validation = xgboost.DMatrix(x[1400:], y[1400:])
    fixed = {
        "objective": "multi:softprob",
        "num_class": 10,
        "eval_metric": ["mlogloss", "merror"],
    }
    metrics = {"val_loss": "val-mlogloss", "val_error": "val-merror"}
    before = tune.get_checkpoint()  # of this trial, after a kill
    model = TuneReportCheckpointCallback.get_model(before) if before else None
    xgboost.train(
        {**fixed, **config},
        training,
        ROUNDS - (model.num_boosted_rounds() if model else 0),
        evals=[(validation, "val")],
        xgb_model=model,
        callbacks=[TuneReportCheckpointCallback(metrics, frequency=1)],
    )


def experiment():
    return {
        "trainable": train,
        "search": {
            "space": {
                "eta": "loguniform(1e-2, 1)",
                "max_depth": "randint(2, 7)",
                "subsample": "uniform(0.5, 1)",
            }
        },
        "objective": {"metric": "val_loss"},
        "scheduler": {"max_t": ROUNDS, "grace_period": 3, "reduction_factor": 3},
        "num_samples": 9,
    }
