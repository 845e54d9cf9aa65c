"""Several objectives: a low loss and few parameters, as a front of trials to choose from.

Replace the second metric by `latency_ms` for the time that an image takes. No early stopping here,
so that small networks train to their end, too.

    $ tuner run examples/several_objectives.py
    several_objectives: completed in 5s
    12 trials: 12 completed

    Best trial 00006, epoch 6 of 6, completed
      val_loss       0.05733  (new data: about 0.0617, 0.0482 to 0.0791)
      parameters     24058
      val_accuracy   0.9861  (baseline 0.1028)
      test_loss      0.08111  (held-out test split)
      test_accuracy  0.9639  (held-out test split; baseline 0.1028)
    Its config
      lr             0.1583
      width          16

    Results      results/several_objectives
    Report       tuner report several_objectives
    TensorBoard  tuner tensorboard several_objectives
    Front        4 trials: tuner best several_objectives

    $ tuner best several_objectives | sed -n '/^Front/,$p'
    Front of 4 trials that none beats in every objective, by worth: lower val_loss, lower parameters
    TRIAL  STATUS     VAL_LOSS  PARAMETERS  EPOCH  OF  TIME  lr      width
    00006  completed  0.06174   24058       6      6   1s    0.1583  16
    00002  completed  0.1141    6274        6      6   1s    0.6453  8
    00005  completed  0.1729    1702        6      6   0s    0.358   4
    00011  completed  0.4701    496         6      6   0s    0.8553  2
"""


def experiment():
    return {
        "training": {"dataset": "digits", "model": "cnn", "epochs": 6},
        "search": {
            "space": {"lr": "loguniform(1e-2, 1)", "width": "choice([2, 4, 8, 16])"}
        },
        "objectives": [{"metric": "val_loss"}, {"metric": "parameters"}],
        "scheduler": "none",
        "num_samples": 12,
    }
