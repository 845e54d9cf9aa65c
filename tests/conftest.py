"""Its presence puts tests/ on the import path: `from contracts.learner_contract import ...`."""
