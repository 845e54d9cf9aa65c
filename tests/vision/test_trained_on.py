"""What a checkpoint says of a user's own images, and that it goes on with the same ones alone."""

import photos
import pytest
import torch

from tuner.errors import CheckpointError, DataError, SpecError
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.trained_on import DATA, described, info_in

# N batch, C channels, H W pixels
SETTINGS = {"model": "cnn", "width": 2, "batch_size": 8, "epochs": 2, "image_size": 8}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    return photos.write(tmp_path / "photos", each=12)


def learner(place, **changed):
    return ImageClassifier({"lr": 0.1}, {**SETTINGS, "dataset": f"folder:{place}", **changed})


def test_one_that_ships_says_nothing():
    constants = {"model": "cnn", "dataset": "digits", "width": 2}
    assert DATA not in ImageClassifier({}, constants).state_dict()


def test_a_state_tells_the_data_and_loads_as_weights_only(place, tmp_path):
    first = learner(place)
    first.step()
    torch.save(first.state_dict(), tmp_path / "state")
    state = torch.load(tmp_path / "state", weights_only=True)
    info = info_in(state)
    assert info.classes == photos.CLASSES
    assert described(info) == state[DATA]
    assert (info.train, info.validation, info.test) == (26, 5, 5)
    second = learner(place)
    second.load_state_dict(state)
    assert second.step()["val_loss"] == first.step()["val_loss"]
    with pytest.raises(DataError, match="does not hold it"):
        info.load(tmp_path, split_seed=0)


def test_other_images_are_refused(place):
    state = learner(place).state_dict()
    photos.write(place, each=13)
    with pytest.raises(DataError) as error:
        learner(place).load_state_dict(state)
    assert str(error.value) == (
        "photos, a folder of images: these are not the images that the checkpoint was trained on "
        "(26 / 5 / 5 images of 3 classes, 8 px; now 27 / 6 / 6 images of 3 classes, 8 px), so its "
        "splits are others"
    )


def test_the_same_images_may_lie_elsewhere(place, tmp_path):
    state = learner(place).state_dict()
    moved = place.rename(tmp_path / "elsewhere")
    for path in moved.rglob("*.jpg"):
        path.write_bytes(path.read_bytes())  # as a copy: with new times
    learner(moved).load_state_dict(state)


def test_pixels_are_normalised_as_those_that_it_was_trained_on(place):
    usual, other = learner(place), learner(place)
    state = usual.state_dict()
    mean_C, std_C = (torch.tensor(state[DATA][name]) for name in ("mean", "std"))
    state[DATA] |= {"mean": [0.0] * 3, "std": [1.0] * 3}
    other.load_state_dict(state)
    usual_NCHW, other_NCHW = evaluated_on(usual), evaluated_on(other)
    pixels_NCHW = usual_NCHW * std_C.view(3, 1, 1) + mean_C.view(3, 1, 1)
    assert torch.allclose(other_NCHW, pixels_NCHW, atol=1e-6)
    assert not torch.allclose(usual_NCHW, pixels_NCHW, atol=1e-6)


def evaluated_on(made):
    """The images of the test split as its model gets them."""
    seen = []
    hook = made.model.register_forward_pre_hook(lambda model, inputs: seen.append(inputs[0]))
    made.test()
    hook.remove()
    return torch.cat(seen)


def test_a_damaged_description_is_told():
    for said in (3, {"classes": []}, {"strange": 1}):
        with pytest.raises(CheckpointError, match="what a checkpoint says of its data is damaged"):
            info_in({DATA: said})


def test_a_config_names_no_data_of_its_own(place):
    for name in (f"folder:{place}", "their_module:load"):
        with pytest.raises(SpecError, match="dataset: may only be searched among those that ship"):
            ImageClassifier({"dataset": name}, SETTINGS)
