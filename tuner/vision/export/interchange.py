"""The model as one file that needs no tuner: ONNX, or PyTorch's exported program.

    onnx, torch-export                   from normalised images to the logits of `load_model`
    onnx-pixels, torch-export-pixels     from uint8 pixels to the probabilities of `tuner predict`

Each takes batches of any size, and is read back and compared with the model.
"""

# N images, C channels, H W pixels, K classes

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Collection
from contextlib import ExitStack
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tuner.errors import ExperimentError, UsageError, describe_error, translate_error
from tuner.vision.batches import compute_scale_shift
from tuner.vision.loss import CrossEntropy
from tuner.vision.models._model import PixelStats
from tuner.wording import suggest_install

TOLERANCE = 1e-4  # largest absolute difference of an output
PIXELS = "-pixels"  # ends the names of formats that take pixels
FILES = {  # format -> file
    "onnx": "model.onnx",
    "torch-export": "model.pt2",
    "onnx-pixels": "pixels.onnx",
    "torch-export-pixels": "pixels.pt2",
}

_NEEDED = {"onnx": ("onnx", "onnxscript", "onnxruntime")}
_LONGEST = 500  # characters of a reason
_COMPARED = (2, 1, 3)  # images a batch; the first batch is traced


def check_formats(formats: Collection[str]) -> None:
    """Raise UsageError, with what to install, for a format that lacks its packages."""
    for name in formats:
        kind = name.removesuffix(PIXELS)
        missing = [
            package for package in _NEEDED.get(kind, ()) if find_spec(package) is None
        ]
        if missing:
            raise UsageError(
                f"--format {name} needs {', '.join(missing)}: {suggest_install(kind)}"
            )


class FromPixels(nn.Module):
    """probabilities_NK of uint8 images x_NCHW, by `model`, which takes normalised ones.

    stats: mean and std of each channel, for pixels from 0 to 1. loss: what it averages over, and
    its temperature.
    """

    def __init__(self, model: nn.Module, stats: PixelStats, loss: CrossEntropy) -> None:
        super().__init__()
        self.model = model
        self._loss = loss
        self.scale_C11: Tensor
        self.shift_C11: Tensor
        dtype = next(model.parameters()).dtype
        scale_C, shift_C = compute_scale_shift(stats, pixels=1)
        self.register_buffer("scale_C11", scale_C.to(dtype)[:, None, None])
        self.register_buffer("shift_C11", shift_C.to(dtype)[:, None, None])

    def forward(self, x_NCHW: Tensor) -> Tensor:
        normalised_NCHW = (
            x_NCHW.to(self.scale_C11.dtype) * self.scale_C11 + self.shift_C11
        )
        return self._loss.compute_logits(self.model, normalised_NCHW).softmax(1)


def write(
    model: nn.Module, name: str, folder: Path, *, shape: tuple[int, int, int]
) -> Path:
    """Write `model`, for images of `shape` (channels, height, width); the file in `folder`.

    model: `FromPixels` for a format that takes pixels. Raises ExperimentError if its outputs differ
    from the model's by more than `TOLERANCE`.
    """
    path = folder / FILES[name]
    # torch's global random state stays as it is
    generator = torch.Generator().manual_seed(0)
    how: dict[str, Any] = {"generator": generator}
    if isinstance(model, FromPixels):
        sizes = [(count, *shape) for count in _COMPARED]
        names = ("pixels", "probabilities")
        batches = [torch.randint(256, size, dtype=torch.uint8, **how) for size in sizes]
    else:
        dtype = next(model.parameters()).dtype
        names = ("images", "logits")
        batches = [
            torch.randn(count, *shape, dtype=dtype, **how) for count in _COMPARED
        ]

    def format_message(error: Exception) -> str:
        return (
            f"{name}: the model cannot be written: {describe_error(error)[:_LONGEST]}"
        )

    exporter = logging.getLogger("torch.onnx")
    with ExitStack() as stack:
        stack.callback(exporter.setLevel, exporter.level)
        exporter.setLevel(logging.ERROR)  # it warns of missing packages
        stack.enter_context(translate_error(ExperimentError, format_message))
        stack.enter_context(torch.no_grad())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", FutureWarning)
        run = _WRITERS[name.removesuffix(PIXELS)](model, batches[0], path, *names)
        differences = [
            (model(batch) - run(batch)).abs().max().item() for batch in batches
        ]
    largest = max(differences)
    if not largest <= TOLERANCE:
        raise ExperimentError(
            f"{name}: its outputs differ by {largest:.2g} from the model's; "
            f"at most {TOLERANCE:g} is allowed"
        )
    return path


def _write_onnx(
    model: nn.Module, x_NCHW: Tensor, path: Path, before: str, after: str
) -> Callable[[Tensor], Tensor]:
    import onnxruntime

    def convert_input(x_NCHW: Tensor) -> Tensor:
        return x_NCHW.float() if x_NCHW.is_floating_point() else x_NCHW

    # In float32: onnxruntime has no convolution in float64
    program = torch.onnx.export(
        deepcopy(model).float(),
        (convert_input(x_NCHW),),
        input_names=[before],
        output_names=[after],
        dynamic_shapes=[{0: torch.export.Dim("batch")}],
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    program.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(x_NCHW: Tensor) -> Tensor:
        (outputs_NK,) = session.run([after], {before: convert_input(x_NCHW).numpy()})
        return torch.from_numpy(outputs_NK)

    return run


def _write_program(
    model: nn.Module, x_NCHW: Tensor, path: Path, _before: str, _after: str
) -> Callable[[Tensor], Tensor]:
    batch = {0: torch.export.Dim("batch")}
    torch.export.save(
        torch.export.export(model, (x_NCHW,), dynamic_shapes=(batch,)), path
    )
    loaded: Callable[[Tensor], Tensor] = torch.export.load(path).module()
    return loaded


_WRITERS = {"onnx": _write_onnx, "torch-export": _write_program}
