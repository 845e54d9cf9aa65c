"""The contract of Declarations: a test inherits it and names the Learner.

class TestLineDeclaration(DeclarationContract):
    learner = Line
    spec = {"search": {"space": {"lr": "uniform(0.1, 1)"}}, "num_samples": 1}
    refused = {"training.points": 0}
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from inspect import getattr_static
from typing import Any, ClassVar

import pytest

from tuner.errors import SpecError
from tuner.spec.declaration import Declaration
from tuner.spec.plan import plan_of
from tuner.spec.settings import schema_of
from tuner.spec.text import override
from tuner.spec.validation import ValidatedSpec, validate


class DeclarationContract:
    """Inherit, set `learner` and `spec`, and every test below runs on the Declaration.

    learner: the class, the function that builds it, or its dotted path. spec: the plain values of
    a spec that works. refused: values that its faults refuse, by the key that the fault has.
    """

    learner: Any
    spec: ClassVar[Mapping[str, Any]]
    refused: ClassVar[Mapping[str, Any]] = {}

    def validated(self, *assignments: str) -> ValidatedSpec:
        """The spec with these KEY=VALUEs."""
        raw = {**self.spec, "trainable": getattr_static(self, "learner")}
        return validate(override(raw, assignments))

    def test_it_is_found(self) -> None:
        assert type(self.validated().declaration) is not Declaration

    def test_settings_say_what_they_mean(self) -> None:
        settings = self.validated().declaration.settings
        schemas = schema_of(settings)["properties"] if settings else {}
        silent = [
            name
            for name, schema in schemas.items()
            if not schema.get("description") and "enum" not in json.dumps(schema)
        ]
        assert not silent

    def test_settling_twice_changes_nothing(self) -> None:
        spec = self.validated()
        assert validate(spec.plain()) == spec

    def test_what_is_refused_has_the_key_at_fault(self) -> None:
        for key, value in self.refused.items():
            with pytest.raises(SpecError) as error:
                self.validated(f"{key}={json.dumps(value)}")
            assert key in [fault.key for fault in error.value.faults]

    def test_a_plan_is_plain(self) -> None:
        plan = plan_of(self.validated(), here=False)
        assert json.loads(json.dumps(plan)) == plan

    def test_data_is_pinned_once(self) -> None:
        spec, again = self.validated(), self.validated()
        for each in (spec, again):
            each.pin_data()
        assert spec.pin_data() == ()
        assert spec.trial_constants == again.trial_constants
        assert spec.pinned == again.pinned
        json.dumps(spec.trial_constants)

    def test_data_of_nodes_can_be_sent(self) -> None:
        spec = self.validated()
        data = spec.declaration.node_data(spec)
        assert [each.title for each in pickle.loads(pickle.dumps(data))] == [
            each.title for each in data
        ]
