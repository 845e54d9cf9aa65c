"""Finished experiments of real classifiers, trained in this process, to be handed over."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from synthetic import Writer, make_folder

from tuner.experiment.results.results import Results
from tuner.spec.code import IMAGE_CLASSIFIER
from tuner.vision.image_classifier import ImageClassifier

SPACE = {"lr": "loguniform(0.01, 1)", "batch_size": "choice([64, 128])"}
CONFIG = {"lr": 0.3, "batch_size": 64}
REFITS = {
    "name": "s",
    "trial_id": "00000",
    "epoch": 1,
    "chosen_by": "val_loss",
    "value": 0.25,
}


def encode_state(state: Mapping[str, Any]) -> bytes:
    """What a checkpoint's file holds."""
    file = BytesIO()
    torch.save(state, file)
    return file.getvalue()


def read_card(folder: Path) -> str:
    """The text of an export's README.md, in one line."""
    return " ".join((folder / "README.md").read_text().split())


def trained(
    folder: Path,
    *,
    seed: int | None = None,
    configs: Sequence[Mapping[str, Any]] = (CONFIG,),
    steps: Sequence[int] = (),
    spec: Mapping[str, Any] | None = None,
    **training: Any,
) -> Results:
    """A search of trials of the real classifier, on the digits.

    seed: of each trial. configs: of the trials. steps: of each trial, default 1; the last has a
    checkpoint. spec: further fields, as of `make_folder`.
    """
    constants = {"model": "cnn", "dataset": "digits", "width": 4, **training}
    make_folder(
        folder,
        trainable=IMAGE_CLASSIFIER,
        training=constants,
        search={"strategy": "random", "space": SPACE},
        num_samples=len(configs),
        **(spec or {}),
    )
    writer = Writer(folder)
    for number, config in enumerate(configs):
        _train(
            writer,
            f"{number:05}",
            config,
            constants,
            seed,
            steps[number] if steps else 1,
        )
    writer.end()
    return Results(folder)


def _train(
    writer: Writer,
    trial_id: str,
    config: Mapping[str, Any],
    constants: Mapping[str, Any],
    seed: int | None,
    steps: int,
) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many are slow for so little
    learner = ImageClassifier(config, {"epochs": 10, **constants, "seed": seed or 1})
    reports = [learner.step() for _ in range(steps)]
    torch.set_num_threads(threads)
    seeding = {} if seed is None else {"seed": seed}
    writer.add("trial_started", trial_id=trial_id, config=config, **seeding)
    for epoch, metrics in enumerate(reports, 1):
        writer.add("result", trial_id=trial_id, epoch=epoch, metrics=metrics)
    writer.checkpoint(trial_id, steps, encode_state(learner.state_dict()))
    writer.add("trial_ended", trial_id=trial_id, status="completed")
