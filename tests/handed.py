"""Finished experiments of real classifiers, trained in this process, to be handed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from synthetic import Writer, make_folder

from tuner.experiment.results.results import Results
from tuner.spec.code import IMAGE_CLASSIFIER
from tuner.vision.image_classifier import ImageClassifier

SPACE = {"lr": "loguniform(0.01, 1)", "batch_size": "choice([64, 128])"}
CONFIG = {"lr": 0.3, "batch_size": 64}


def trained(folder: Path, *, seed: int | None = None, **training: Any) -> Results:
    """A search of one trial of one epoch: the real classifier, on the digits."""
    constants = {"model": "cnn", "dataset": "digits", "width": 4, **training}
    make_folder(
        folder,
        trainable=IMAGE_CLASSIFIER,
        training=constants,
        search={"strategy": "random", "space": SPACE},
        num_samples=1,
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many are slow for so little
    learner = ImageClassifier(CONFIG, {"epochs": 10, **constants, "seed": seed or 1})
    metrics = learner.step()
    torch.set_num_threads(threads)
    writer = Writer(folder)
    seeding = {} if seed is None else {"seed": seed}
    writer.add("trial_started", trial_id="00000", config=CONFIG, **seeding)
    writer.add("result", trial_id="00000", epoch=1, metrics=metrics)
    path = folder / "trials" / "00000" / "checkpoints" / "1" / "state.pt"
    path.parent.mkdir(parents=True)
    torch.save(learner.state_dict(), path)
    writer.journal_checkpoint("00000", 1, path)
    writer.add("trial_ended", trial_id="00000", status="completed")
    writer.end()
    return Results(folder)
