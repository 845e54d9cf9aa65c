"""tuner spec: the reference, a part of it, or the JSON schema."""

import json

from commands import call, tuner
from fresh import ran

from tuner.planning.schema import spec_schema
from tuner.reporting.reference import part, reference


def test_the_whole_a_part_and_the_schema():
    assert call("spec").stdout == f"{reference()}\n"
    assert call("spec", "search.space").stdout == f"{part('search.space')}\n"
    assert json.loads(call("spec", "--json").stdout) == spec_schema()


def test_an_unknown_key_is_exit_code_2():
    done = tuner("spec", "resorces")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no key 'resorces' (did you mean 'resources'?)" in done.stderr


def test_a_part_of_the_schema_is_refused():
    assert "leave KEY out" in str(call("spec", "search", "--json").exception)


def test_nothing_heavy_is_imported():
    done = ran("from tuner.cli.main import cli; cli.main(['spec'], standalone_mode=False)")
    assert not done.modules & {"ray", "torch", "pandas", "sklearn"}
