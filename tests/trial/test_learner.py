from tuner.trial.learner import Learner


def test_class_without_a_method_is_no_learner():
    class Half:
        def step(self):
            return {}

    assert not isinstance(Half(), Learner)
