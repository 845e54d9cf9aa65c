import json

from synthetic import START, Writer, make_folder

from tuner.record.files import JOURNAL
from tuner.results.listing import list_experiments


def test_experiments_are_listed_oldest_first_and_damage_does_not_stop_it(tmp_path):
    storage = tmp_path
    writer = Writer(make_folder(storage / "digits"))
    writer.trial(1, [0.5, 0.4], end="stopped")
    writer.trial(2, [0.6, 0.9, 0.8])
    writer.trial(3, [0.99], error=("oom", "CUDA out of memory"))
    writer.end()
    make_folder(storage / "broken")
    (storage / "broken" / JOURNAL).write_text("x\n{}\n")
    (storage / "foreign").mkdir()
    (storage / "foreign" / "experiment.json").write_text('{"who": "else"}')
    (storage / "notes").mkdir()
    listed = list_experiments(storage)
    assert [entry.name for entry in listed] == ["digits", "broken", "foreign"]
    digits, broken, foreign = listed
    assert (digits.status, digits.best, digits.metric) == ("completed", 0.9, "val_accuracy")
    assert (digits.started, digits.counts["failed"]) == (START + 1, 1)
    assert (broken.status, foreign.status) == ("damaged", "damaged")
    assert "line 1" in (broken.problem or "")
    assert json.loads(json.dumps(digits.as_dict()))["counts"]["completed"] == 1
