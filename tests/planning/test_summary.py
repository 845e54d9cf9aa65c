import pytest

from tuner.errors import UsageError
from tuner.planning.summary import summaries_of
from tuner.spec.experiment import build_spec

SPEC = {"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 5}


def test_there_is_one_of_each_model_with_the_first_of_what_is_searched():
    space = {"model": "choice(['cnn', 'resnet20'])", "norm": "choice(['group', 'batch'])"}
    spec = build_spec({**SPEC, "search": {"space": space}, "training": {"dataset": "digits"}})
    cnn, resnet = summaries_of(spec)
    assert (cnn["model"], cnn["settings"]["norm"]) == ("cnn", "group")
    assert (resnet["model"], resnet["images"], resnet["classes"]) == ("resnet20", "1x8x8", 10)
    assert resnet["parameters"] > cnn["parameters"] == cnn["trainable"]
    assert cnn["stages"][0].keys() == {"name", "kind", "output", "parameters"}


def test_it_is_of_the_image_classifier_alone():
    with pytest.raises(UsageError, match=r"--summary is of the image classifier; a\.b:C builds"):
        summaries_of(build_spec({**SPEC, "trainable": "a.b:C"}))
