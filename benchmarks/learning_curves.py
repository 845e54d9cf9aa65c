"""Tables of real learning curves, on which searches under ASHA are simulated in seconds.

    python -m benchmarks.learning_curves digits           about 10 minutes of one core
    python -m benchmarks.learning_curves photographs      the same; for tuning, not for claims
    python -m benchmarks.learning_curves breast_cancer    a minute; for tuning, not for claims

`digits`: the validation loss after each of 10 epochs, for configs of tuner's own image classifier
(small CNN, 8x8 digits), drawn from `SPACES` with Sobol's sequence. `photographs`: the same
classifier with another space, on crops of scikit-learn's two photographs. The classes are which
photograph a crop is from, and from which third of its height. The other tables are of
scikit-learn's MLPClassifier on the data set that they are named after. A table is a compressed .npz
beside this file: `u_ND` are the configs in the unit cube, `loss_NE` their losses. A loss that is
not finite is stored as inf.
"""

# N configs, D hyperparameters, E epochs

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import qmc

from tuner.spec.space.parsing import parse_space

EPOCHS = 10
FOLDER = Path(__file__).with_name("data")
DIGITS = {
    "lr": "loguniform(1e-4, 10)",
    "momentum": "uniform(0.5, 0.99)",
    "weight_decay": "loguniform(1e-6, 0.5)",
    "batch_size": "choice([16, 32, 64, 128])",
}
PHOTOGRAPHS = {
    "lr": "loguniform(1e-5, 3)",
    "momentum": "uniform(0, 0.99)",
    "weight_decay": "loguniform(1e-7, 0.5)",
    "batch_size": "choice([16, 32, 64, 128])",
    "width": "choice([8, 16, 32])",
}
MLP = {
    "lr": "loguniform(1e-5, 3)",
    "momentum": "uniform(0, 0.99)",
    "alpha": "loguniform(1e-6, 10)",
    "batch_size": "choice([8, 16, 32, 64])",
    "units": "lograndint(2, 65)",
}
SPACES = {"digits": DIGITS, "photographs": PHOTOGRAPHS, "breast_cancer": MLP, "wine": MLP}
CROP = 96  # pixels, shrunk to 8x8
SIZE = 720


def load_table(name):
    """(configs in the unit cube, validation losses) of a table."""
    with np.load(FOLDER / f"curves_{name}.npz") as table:
        return table["u_ND"].astype(float), table["loss_NE"].astype(float)


def config_at(name, u_D):
    """The config at a point of the unit cube."""
    space = parse_space(SPACES[name])
    return {key: domain.at(float(u)) for (key, domain), u in zip(space.items(), u_D, strict=True)}


def photographs(folder, *, split_seed):
    """1800 crops of two photographs as 8x8x3 images, split 1080 / 360 / 360."""
    from sklearn.datasets import load_sample_images

    from tuner.vision.datasets._dataset import ImageArrays

    rng = np.random.default_rng(split_seed)
    photos = load_sample_images().images
    labels_N = np.arange(1800) % 6
    images_NHWC = np.empty((1800, 8, 8, 3), np.uint8)
    for i, label in enumerate(labels_N):
        photo, third = photos[label % 2], label // 2
        height, width, _ = photo.shape
        top = int((third + rng.random()) * (height - CROP) / 3)
        left = rng.integers(0, width - CROP)
        crop = photo[top : top + CROP, left : left + CROP]
        images_NHWC[i] = crop.reshape(8, CROP // 8, 8, CROP // 8, 3).mean((1, 3))
    parts = np.split(rng.permutation(1800), [1080, 1440])
    splits = dict(zip(("train", "validation", "test"), parts, strict=True))
    return ImageArrays(images_NHWC, labels_N, splits)


def classifier_curve(name, config):
    """The validation loss after each epoch of tuner's image classifier."""
    from tuner.vision.catalog import DATASETS
    from tuner.vision.datasets._dataset import DatasetInfo
    from tuner.vision.image_classifier import ImageClassifier

    DATASETS["photographs"] = DatasetInfo(
        photographs,
        channels=3,
        image_size=8,
        classes=tuple("012345"),
        train=1080,
        validation=360,
        test=360,
        mean=(0.5,) * 3,
        std=(0.25,) * 3,
        files=False,
        title="crops of two photographs",
        origin="scikit-learn's sample images",
        licence="CC BY 2.0",
    )
    constants = {"model": "cnn", "dataset": name, "epochs": EPOCHS, "seed": 0}
    learner = ImageClassifier(config, constants)
    return [learner.step()["val_loss"] for _ in range(EPOCHS)]


def mlp_curve(name, config):
    """The validation log loss after each epoch of scikit-learn's MLP."""
    from sklearn import datasets
    from sklearn.metrics import log_loss
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import scale

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    x_train, x_val, y_train, y_val = train_test_split(
        scale(x), y, test_size=0.3, random_state=0, stratify=y
    )
    model = MLPClassifier(
        (config["units"],),
        solver="sgd",
        alpha=config["alpha"],
        batch_size=config["batch_size"],
        learning_rate_init=config["lr"],
        momentum=config["momentum"],
        random_state=0,
    )
    losses = []
    for _ in range(EPOCHS):
        try:
            model.partial_fit(x_train, y_train, classes=np.unique(y))
            losses.append(log_loss(y_val, model.predict_proba(x_val)))
        except ValueError:  # the weights are no longer finite
            losses.append(np.inf)
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=sorted(SPACES))
    parser.add_argument("--quick", action="store_true", help="8 configs, written nowhere")
    arguments = parser.parse_args()
    name, size = arguments.table, 8 if arguments.quick else SIZE
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    with warnings.catch_warnings():
        u_ND = qmc.Sobol(len(SPACES[name]), rng=0).random(size)
    loss_NE = np.empty((size, EPOCHS))
    started = time.monotonic()
    for i, u_D in enumerate(u_ND):
        config = config_at(name, u_D)
        curve = classifier_curve if name in ("digits", "photographs") else mlp_curve
        loss_NE[i] = curve(name, config)
        if i % 20 == 0:
            print(f"{i} of {size} configs, {time.monotonic() - started:.0f} s", file=sys.stderr)
    loss_NE[~np.isfinite(loss_NE)] = np.inf
    print(f"{name}: best {loss_NE[:, -1].min():.4f}, median {np.median(loss_NE[:, -1]):.4f}")
    if not arguments.quick:
        FOLDER.mkdir(exist_ok=True)
        path = FOLDER / f"curves_{name}.npz"
        np.savez_compressed(path, u_ND=u_ND.astype("float32"), loss_NE=loss_NE.astype("float32"))
        print(f"{path}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
