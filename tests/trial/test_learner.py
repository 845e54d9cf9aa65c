from tuner.trial.learner import Learner, LearnerFactory
from tuner.vision.image_classifier import ImageClassifier


def test_class_without_a_method_is_no_learner():
    class Half:
        def step(self):
            return {}

    assert not isinstance(Half(), Learner)
    assert isinstance(ImageClassifier({}, {}), Learner)


def test_learner_class_is_a_factory():
    factory: LearnerFactory = ImageClassifier
    assert isinstance(factory({}, {"epochs": 1}, device="cpu", rank=0, world_size=1), Learner)
