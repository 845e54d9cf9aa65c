"""Its presence puts tests/ on the import path: `from contracts.learner_contract import ...`."""

from hypothesis import settings

# A loaded machine is no failure of the property.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
