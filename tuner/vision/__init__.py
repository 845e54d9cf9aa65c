"""The Learner that ships: an image classifier, its data and its models. It needs no Ray."""
