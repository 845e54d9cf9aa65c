"""docs/notebook.ipynb is true: it runs, and its cells show what they show there.

To show what they come to now: `jupyter execute --inplace notebook.ipynb`, of a copy in an empty
folder.
"""

import re
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs/notebook.ipynb"


def shown(cell):
    """The words, without numbers, of what a cell has returned, raised and printed."""
    texts = [
        str(text)
        for output in cell.outputs
        # The progress, whose lines depend on who is first
        if output.get("name") != "stderr"
        for _, text in sorted(
            output.get("data", {"text": output.get("text", "")}).items()
        )
    ]
    return re.findall(r"[A-Za-z_<>/]+", "\n".join(texts))


@pytest.mark.docs
def test_notebook_outputs_equal_shown_outputs(tmp_path, monkeypatch):
    reason = "no test of it: pip install 'tuner[dev]'"
    nbclient = pytest.importorskip("nbclient", reason=reason)
    import nbformat

    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    kept = nbformat.read(NOTEBOOK, as_version=4)
    fresh = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        fresh,
        timeout=300,
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    cells = [cell for cell in kept.cells if cell.cell_type == "code"]
    again = [cell for cell in fresh.cells if cell.cell_type == "code"]
    assert [shown(cell) for cell in cells] == [shown(cell) for cell in again]
    assert all(cell.outputs for cell in cells)
    assert (tmp_path / "results/notebook/journal.jsonl").is_file()
