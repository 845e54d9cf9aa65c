"""What a trial takes of its device's memory, or of the process's, and whether that only grows."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from tuner.trial.leak import EPOCHS, SUSPECT, steady_growth
from tuner.trial.process_memory import status_mib

_MIB = 1.0  # the growth of one epoch that counts

_MIB = 1 << 20
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class MemoryWatch:
    """Measures each epoch of one trial, and warns once where memory grows epoch after epoch.

        watch = MemoryWatch(device)
        watch.begin()
        metrics = learner.step()
        metrics |= watch.end()

    On CUDA it is what tensors take on the device; elsewhere the resident memory of the process.
    """

    def __init__(self, device: torch.device | str) -> None:
        self._device = torch.device(device)
        self._samples_mib: list[float] = []
        self._warned = False

    def begin(self) -> None:
        """From here on the peak is counted."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        else:
            _reset_peak()

    def end(self) -> dict[str, float]:
        """The epoch's memory_mib, at its end, and peak_memory_mib.

        With gpu_utilisation (0 to 1) on CUDA where NVIDIA's pynvml is installed.
        """
        measured = self._measured()
        self._samples_mib.append(measured["memory_mib"])
        growth = steady_growth(self._samples_mib)
        if growth is not None and not self._warned:
            self._warned = True
            print(self._warning(growth))
        return measured

    @property
    def warned(self) -> bool:
        """Whether memory grew epoch after epoch at some time."""
        return self._warned

    def _measured(self) -> dict[str, float]:
        if self._device.type != "cuda":
            now, peak = _resident_mib()
            return {"memory_mib": now, "peak_memory_mib": max(now, peak)}
        return {
            "memory_mib": torch.cuda.memory_allocated(self._device) / _MIB,
            "peak_memory_mib": torch.cuda.max_memory_allocated(self._device) / _MIB,
            **_utilisation(self._device),
        }

    def _warning(self, growth: float) -> str:
        now = self._samples_mib[-1]
        where = "on the GPU" if self._device.type == "cuda" else "of the process"
        return (
            f"warning: the memory {where} grew in each of the last {EPOCHS} epochs, by "
            f"{growth:.1f} MiB an epoch to {now:.0f} MiB. Something is kept from one epoch to the "
            f"next: {SUSPECT}"
        )


def _utilisation(device: torch.device) -> dict[str, float]:
    try:
        return {"gpu_utilisation": torch.cuda.utilization(device) / 100}
    except Exception:  # no pynvml, or one that cannot speak to the driver: nothing to tell
        return {}


def _resident_mib() -> tuple[float, float]:
    """(now, peak since the last reset) of this process."""
    try:
        return status_mib("VmRSS"), status_mib("VmHWM")
    except (OSError, KeyError, ValueError):  # no Linux
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak = used / _MIB if sys.platform == "darwin" else used / 1024
        return peak, peak


def _reset_peak() -> None:
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK)
    except OSError:  # no Linux, or not allowed: the peak is then that of the process's life
        return
