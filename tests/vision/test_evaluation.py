"""Metrics of a trained model, as its Learner measures them; its mistakes, and doubtful labels."""

from dataclasses import replace
from itertools import pairwise

import photos
import pytest
import tiny_images
import torch
from torch import nn

from tuner.vision.batches import ImageSet, sample_evenly
from tuner.vision.evaluation import (
    Likeliest,
    find_doubtful_labels,
    list_mistakes,
    prepare_device,
)
from tuner.vision.features import Features
from tuner.vision.image_classifier import ImageClassifier


def separable(count=300, classes=3):
    """(features, images) of `classes` groups of points that a linear head tells apart."""
    generator = torch.Generator().manual_seed(0)
    labels_N = torch.arange(count) % classes
    means_NF = 4 * nn.functional.one_hot(labels_N, classes + 2)
    views_NVF = torch.randn(
        count, 2, classes + 2, generator=generator
    ) + means_NF.unsqueeze(1)
    info = replace(tiny_images.INFO, classes=tuple("abc"[:classes]))
    return Features(views_NVF[:, None], "head"), ImageSet(
        info, views_NVF.flatten(1), labels_N, {}
    )


@pytest.mark.parametrize(("cpus", "threads"), [(0.5, 1), (2.0, 2), (99, 3)])
def test_prepare_device_limits_threads_to_the_cpus(cpus, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        prepare_device(cpus)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_doubtful_labels_lists_the_labels_that_were_changed():
    features, images = separable(2500)  # judged in blocks
    changed = [7, 1000, 2050]
    images.labels_N[changed] = (images.labels_N[changed] + 1) % 3
    names = [str(row) for row in range(2500)]
    judged = find_doubtful_labels(features, images, names)
    assert judged["doubtful_share"] > 0.5
    listed = judged["doubtful_labels"]
    assert {int(entry["file"]) for entry in listed} == {*changed}
    for entry in listed:
        right = int(entry["file"]) % 3
        assert entry["suggested"] == "abc"[right]
        assert entry["label"] == "abc"[right - 2]
        assert 0.5 < entry["probability"] <= 1


@pytest.mark.parametrize("count", [2, 7, 300])
def test_doubtful_labels_of_right_labels_are_none(count):
    judged = find_doubtful_labels(*separable(count), [""] * count)
    assert judged == {"doubtful_labels": [], "doubtful_share": 0.0}


def test_doubtful_labels_are_few_of_those_in_classes_that_look_alike():
    features, images = separable()
    images.labels_N[::2] = torch.arange(150) % 3
    assert find_doubtful_labels(features, images, [""] * 300)["doubtful_share"] < 0.25


def test_test_lists_the_surest_mistakes_with_their_files(tmp_path, data_home):
    folder = photos.write(tmp_path / "photos", each=40)
    constants = {
        "dataset": f"folder:{folder}",
        "model": "cnn",
        "width": 4,
        "image_size": 12,
    }
    learner = ImageClassifier({"lr": 1e-9}, {**constants, "epochs": 1})
    learner.step()
    metrics = learner.test()
    wrong = round((1 - metrics["test_accuracy"]) * metrics["images"])
    assert len(learner.mistakes) == wrong > 0
    probabilities = [entry["probability"] for entry in learner.mistakes]
    assert probabilities == sorted(probabilities, reverse=True)
    for entry in learner.mistakes:
        assert entry["file"].startswith(f"{folder}/{entry['label']}/")
        assert entry["predicted"] != entry["label"]
    assert learner.examine_images() == {}  # there are no features to judge by
    weights = tmp_path / "weights.pt"
    torch.save(learner.model.state_dict(), weights)
    constants |= {"start_from": str(weights), "fit_head": True}
    assert "doubtful_labels" in ImageClassifier({}, constants).examine_images()


def test_mistakes_are_found_wherever_they_lie_in_the_split():
    """The images of a split are ordered by class: a wrong one may be the last of very many."""
    _, images = separable(30_000)
    logits_NK = 9 * torch.nn.functional.one_hot(images.labels_N, 3).float()
    logits_NK[-1] = logits_NK[-1].roll(1)
    rows_N = torch.arange(30_000)
    names = [str(row) for row in range(30_000)]
    [listed] = list_mistakes(Likeliest.find(logits_NK), images, rows_N, names)
    assert listed["file"] == "29999"


@pytest.mark.parametrize(("count", "most"), [(3, 5), (5, 5), (11, 5), (4000, 2000)])
def test_sample_evenly_covers_all_rows(count, most):
    sampled = sample_evenly(torch.arange(count), most).tolist()
    assert len(sampled) == min(count, most)
    gaps = [after - before for before, after in pairwise([*sampled, count])]
    assert min(gaps) > 0
    assert max(gaps) - min(gaps) <= 1


def test_test_of_images_without_names_lists_no_mistakes():
    learner = ImageClassifier({}, tiny_images.TINY)
    learner.test()
    assert learner.mistakes is None
