"""docs/your_training.md is true: its files are complete, and its commands run."""

import os
import re
import sys

import pytest
from pages import Page, run_in_shell

from tuner.experiment.results.results import Results
from tuner.trial.script import Script

PAGE = Page("docs/your_training.md")


@pytest.fixture
def folder(tmp_path):
    PAGE.write_files(tmp_path)
    return tmp_path


@pytest.mark.docs
def test_page_commands_run(folder):
    for command in PAGE.commands:
        run_in_shell(command, folder)
    assert (folder / "best_mlp/checkpoint/model.joblib").is_file()
    assert Results(folder / "results/sklearn_digits").counts["stopped"] > 0


@pytest.mark.docs
def test_trial_files_are_in_trial_folder(searched, folder, monkeypatch):
    import torch

    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    torch.save(torch.ones(3), folder / "data.pt")
    results = searched(
        trainable="in_its_folder:train",
        search={"space": {"lr": "uniform(0, 1)"}},
        objective={"metric": "loss"},
        scheduler="none",
        num_samples=1,
    )
    assert (results.folder / "trials/00000/files/losses.txt").read_text().count(
        "\n"
    ) == 3


LIGHTNING = """
class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(1, 1)
    def training_step(self, batch, _):
        return self.model(batch).sum()
    def validation_step(self, batch, _):
        self.log("val_loss", torch.tensor(0.5))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters())
loader = torch.utils.data.DataLoader(torch.ones(2, 1))
quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
lightning.Trainer(max_epochs=2, callbacks=[report], **quiet).fit(Net(), loader, loader)
"""
HUGGING_FACE = """
model = transformers.ViTForImageClassification(transformers.ViTConfig(
    image_size=8, patch_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
data = [{"pixel_values": torch.ones(3, 8, 8), "labels": 0}] * 2
arguments = transformers.TrainingArguments(
    "out", num_train_epochs=2, eval_strategy="epoch", report_to="none", disable_tqdm=True)
transformers.Trainer(model, arguments, None, data, data, callbacks=[Report()]).train()
"""
KERAS = """
for epoch in range(2):
    report.kept["on_epoch_end"](epoch, {"val_loss": 0.5})
"""
KERAS_HERE = """
import types
class LambdaCallback:
    def __init__(self, **kept):
        self.kept = kept
keras = types.SimpleNamespace(callbacks=types.SimpleNamespace(LambdaCallback=LambdaCallback))
"""


@pytest.mark.docs
@pytest.mark.parametrize(
    ("framework", "begins", "ends", "metric"),
    [
        ("Lightning", "import lightning.pytorch, torch", LIGHTNING, "val_loss"),
        ("Hugging Face", "import transformers, torch", HUGGING_FACE, "eval_loss"),
        ("Keras", KERAS_HERE, KERAS, "val_loss"),
    ],
)
def test_framework_callback_reports_each_epoch(
    framework, begins, ends, metric, tmp_path
):
    for package in re.findall("lightning|transformers", begins):
        pytest.importorskip(package)
    [callback] = [
        block for block in PAGE.blocks("python") if block.startswith(f"# {framework}:")
    ]
    source = f"import tuner\n{begins}\n{callback}\n{ends}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = ["env", "-C", str(tmp_path), sys.executable, "-c", source]
    script = Script(command, environment, metric=metric, on_report=lambda: None)
    try:
        reports = [report[0] for report in iter(script.next_report, None)]
    finally:
        script.end()
    assert script.exit_code == 0, script.last_lines
    assert [isinstance(report[metric], float) for report in reports] == [True, True]
