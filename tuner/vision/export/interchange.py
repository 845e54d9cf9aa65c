"""The model as one file that needs no tuner: ONNX, or PyTorch's exported program.

Each takes batches of any size, and is read back and compared with the model.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import ExperimentError, UsageError, reason_of, translate_error
from tuner.wording import install

if TYPE_CHECKING:
    from torch import Tensor, nn

TOLERANCE = 1e-4  # largest absolute difference of a logit
FILES = {"onnx": "model.onnx", "torch-export": "model.pt2"}  # format -> file
INPUT, OUTPUT = "images", "logits"

_NEEDED = {"onnx": ("onnx", "onnxscript", "onnxruntime"), "torch-export": ()}
_LONGEST = 500  # characters of a reason
_COMPARED = (2, 1, 3)  # images a batch; the first batch is traced


def check_formats(formats: Collection[str]) -> None:
    """Raise UsageError, with what to install, for a format that lacks its packages."""
    for name in formats:
        missing = [package for package in _NEEDED[name] if find_spec(package) is None]
        if missing:
            raise UsageError(f"--format {name} needs {', '.join(missing)}: {install(name)}")


def write(model: nn.Module, name: str, folder: Path, *, shape: tuple[int, int, int]) -> Path:
    """Write `model`, for images of `shape` (channels, height, width); the file in `folder`.

    Raises ExperimentError if its logits differ from the model's by more than `TOLERANCE`.
    """
    import torch

    path = folder / FILES[name]
    dtype = next(model.parameters()).dtype
    generator = torch.Generator().manual_seed(0)  # torch's global random state stays as it is
    batches = [torch.randn(count, *shape, dtype=dtype, generator=generator) for count in _COMPARED]

    def message(error: Exception) -> str:
        return f"{name}: the model cannot be written: {reason_of(error)[:_LONGEST]}"

    with _quiet(), torch.no_grad(), translate_error(ExperimentError, message):
        run = _WRITERS[name](model, batches[0], path)
        differences = [(model(batch) - run(batch)).abs().max().item() for batch in batches]
    largest = max(differences)
    if not largest <= TOLERANCE:
        raise ExperimentError(
            f"{name}: its logits differ by {largest:.2g} from the model's; "
            f"at most {TOLERANCE:g} is allowed"
        )
    return path


def _write_onnx(model: nn.Module, x_NCHW: Tensor, path: Path) -> Callable[[Tensor], Tensor]:
    import onnxruntime
    import torch

    # In float32: onnxruntime has no convolution in float64
    program = torch.onnx.export(
        deepcopy(model).float(),
        (x_NCHW.float(),),
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamic_shapes=[{0: torch.export.Dim("batch")}],
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    program.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(x_NCHW: Tensor) -> Tensor:
        (logits_NK,) = session.run([OUTPUT], {INPUT: x_NCHW.float().numpy()})
        return torch.from_numpy(logits_NK)

    return run


def _write_program(model: nn.Module, x_NCHW: Tensor, path: Path) -> Callable[[Tensor], Tensor]:
    import torch

    batch = {0: torch.export.Dim("batch")}
    torch.export.save(torch.export.export(model, (x_NCHW,), dynamic_shapes=(batch,)), path)
    loaded: Callable[[Tensor], Tensor] = torch.export.load(path).module()
    return loaded


_WRITERS = {"onnx": _write_onnx, "torch-export": _write_program}
assert _WRITERS.keys() == FILES.keys() == _NEEDED.keys()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's exporter, which logs missing packages, and its deprecations."""
    exporter = logging.getLogger("torch.onnx")
    before = exporter.level
    exporter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        exporter.setLevel(before)
