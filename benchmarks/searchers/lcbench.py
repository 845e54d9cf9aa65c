"""The learning curves of LCBench, by a surrogate; needs `onnxruntime`.

FOLDER holds `model.onnx` and `encoding.json` of the folder `lcbench` of YAHPO Gym's data
(github.com/slds-lmu/yahpo_data, Apache-2.0). LCBench (Zimmer, Lindauer and Hutter, "Auto-PyTorch
Tabular", 2021) trained fully connected networks of 7 hyperparameters on 35 OpenML tasks.
"""

import json
from functools import cache

import numpy as np

EPOCHS = 50
SPACE = {
    "batch_size": "lograndint(16, 513)",
    "learning_rate": "loguniform(1e-4, 1e-1)",
    "momentum": "uniform(0.1, 0.99)",
    "weight_decay": "uniform(1e-5, 0.1)",
    "num_layers": "randint(1, 6)",
    "max_units": "lograndint(64, 1025)",
    "max_dropout": "uniform(0, 1)",
}
SPLITS = {
    "tuning": (
        *(
            "3945",
            "7593",
            "34539",
            "126026",
            "167152",
            "167168",
            "167181",
            "167190",
            "167200",
        ),
        *(
            "168868",
            "189354",
            "189862",
            "168329",
            "168330",
            "168331",
            "168908",
            "168910",
        ),
    ),
    "claims": (
        *(
            "126025",
            "126029",
            "146212",
            "167083",
            "167104",
            "167149",
            "167161",
            "167184",
        ),
        *(
            "167185",
            "167201",
            "168335",
            "189905",
            "189865",
            "189866",
            "189873",
            "189906",
        ),
        *("189908", "189909"),
    ),
}


@cache
def surrogate(folder):
    """(the session, {task: its code}) of the model in a folder."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options)
    return session, json.loads((folder / "encoding.json").read_text())["OpenML_task_id"]


def measured(folder, task, config):
    """Seconds from the start, and accuracy in percent, after each epoch; and four other columns."""
    session, codes = surrogate(folder)
    row = np.array([config[name] for name in SPACE], dtype=np.float32)
    x_EF = np.column_stack([np.arange(1, EPOCHS + 1), np.tile(row, (EPOCHS, 1))])
    inputs = {
        "x_cat": np.full((EPOCHS, 1), codes[task], np.int32),
        "x_cont": np.float32(x_EF),
    }
    return session.run(None, inputs)[0].astype(float)


def curve_of(folder, task, config):
    """The validation error after each epoch."""
    return np.clip((100 - measured(folder, task, config)[:, 1]) / 100, 1e-4, 1.0)
