"""Its presence puts tests/ on the import path: `from contracts.learner_contract import ...`."""

from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # how long an example takes is not tested
settings.load_profile("any machine")
