"""Creates, starts and resumes experiments."""

from __future__ import annotations

import logging
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tuner.cluster import connect as cluster
from tuner.errors import SpecError, UsageError
from tuner.experiment.changes import find_lengths, has_grown
from tuner.experiment.control import read_current_document
from tuner.experiment.files import EXPERIMENT, JOURNAL
from tuner.experiment.folder import FORMAT, ExperimentFolder
from tuner.experiment.results.accuracy import VALIDATION
from tuner.experiment.results.described import Labels
from tuner.experiment.results.results import Results
from tuner.reporting.notifier import build_deliveries
from tuner.search.extension import Extension, load_if_finished, resolve_trainable
from tuner.search.preparation import Plan, prepare
from tuner.spec.code import find_code, refuse_elsewhere
from tuner.spec.declaration import find_paired_faults
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.notify import is_command
from tuner.spec.plan import list_warnings
from tuner.spec.retired import refuse_retired
from tuner.spec.validation import Machine

_log = logging.getLogger(__name__)
DATA = "data_content"  # in experiment.json: a digest of the user's images
_PACKAGES = (
    *("tuner", "torch", "ray", "hyperopt", "bayesian-optimization", "pandas", "numpy"),
    *("scikit-learn", "torchvision", "timm"),
)


def run_experiment(spec: ExperimentSpec | Plan, *, note: str = "") -> Results:
    """Run the search of `spec` and return its results; progress goes to stderr.

    note: as of `tuner note`. Uses the connected Ray, or starts one. Doubts are logged. Raises
    SpecError for a spec that cannot work, UsageError if the experiment exists,
    InterruptedSearchError after a signal, and ExperimentError for the experiment's faults; reports
    are safe in the journal.
    """
    if isinstance(spec, Plan):
        plan = spec
    else:
        plan = prepare(spec, machine=_detect_machine())
        for warning in list_warnings(plan.spec, here=not cluster.is_connected()):
            _log.warning(warning)
    refuse_elsewhere(plan.spec.trainable)
    plan = _pin_data(plan)
    if cluster.is_connected():
        cluster.admit(plan.trained_spec)  # raises before a folder is created
    build_deliveries(plan.spec.notify)  # so does this, for a target that cannot work
    folder = create(plan)
    if note:
        Labels(note=note).write(folder)
    return _run_search(plan, folder)


def resume_experiment(
    folder: Path | str,
    *,
    more: Extension | None = None,
    changes: Mapping[str, Any] | None = None,
    trainable: Any = None,
) -> Results:
    """Continue the experiment in `folder`; returns at once if nothing is left to do.

    more: extends the search. changes: of the spec, by dotted path, as {"scheduler.max_t": 20}
    (`tuner.experiment.changes`). trainable: a script's or notebook's function or class. Raises as
    `run_experiment`, UsageError for another trainable or changed images, and SpecError for a spec
    that cannot run here or a change that a resume cannot make.
    """
    more = more or Extension()
    folder = Path(folder)
    if changes:
        more = replace(more, changes={**more.changes, **changes})
    files = ExperimentFolder(folder)
    document = read_current_document(files)
    refuse_retired(document["spec"], f"the resume of {files.name}")
    if results := load_if_finished(folder, more):
        return results
    recorded = build_spec(document["spec"], str(folder / EXPERIMENT), recorded=True)
    extended = more.apply(document, files)
    moved = {
        "name": files.name,
        "storage": files.storage,
        "trainable": resolve_trainable(recorded.trainable, trainable, folder),
        "notify": _filter_targets(extended["spec"]),
    }
    raw = {**extended["spec"], **moved}
    plan = prepare(
        raw, source=str(folder / EXPERIMENT), machine=_detect_machine(), recorded=True
    )
    spec = plan.spec
    if spec.search.space != recorded.search.space:
        _refuse_new_pairs(spec, recorded)
    plan = _pin_data(plan)
    refuse_changed_data(plan, document, files.name)
    if cluster.is_connected():
        cluster.admit(plan.trained_spec)
    is_changed = extended != document or (
        trainable is not None and spec.trainable != recorded.trainable
    )
    written = {**extended, "spec": spec.model_dump(mode="json")} if is_changed else None
    return _run_search(
        plan,
        files,
        resumed=True,
        written=written,
        retry_failed=more.retry_failed,
        lengths=find_lengths(extended, spec),
        has_grown=has_grown(extended, files.name),
    )


def _refuse_new_pairs(spec: ExperimentSpec, recorded: ExperimentSpec) -> None:
    """Raise SpecError if two settings of the wider space fail together, and none did before."""
    before = spec.model_copy(update={"search": recorded.search})
    faults = list(find_paired_faults(spec))
    if faults and not any(find_paired_faults(before)):
        raise SpecError(faults, f"the resume of {spec.name}")


def refuse_changed_data(plan: Plan, document: Mapping[str, Any], name: str) -> None:
    """Raise UsageError unless the pinned data of a plan is that of the experiment `name`.

    document: its experiment.json.
    """
    content = plan.data.content if plan.data else ""
    if document.get(DATA, content) != content:
        raise UsageError(
            f"the data of {name} has changed since it began "
            f"({plan.spec.training.get('dataset')}): restore it, or begin a new search"
        )


def _filter_targets(recorded: Mapping[str, Any]) -> list[str]:
    """The recorded targets of notifications; warns of those that are commands."""
    targets = recorded.get("notify", [])
    for target in filter(is_command, targets):
        _log.warning("%s is not notified: commands are no targets any more", target)
    return [target for target in targets if not is_command(target)]


def _pin_data(plan: Plan) -> Plan:
    """The plan with its data; logs what is doubtful of it, unless somebody has said so before."""
    pinned = plan.pin_data()
    if plan.data is None and pinned.data:
        for doubt in pinned.data.doubts:
            _log.warning(doubt)
    return pinned


def _detect_machine() -> Machine | None:
    """This machine, unless the search runs on a joined cluster."""
    return None if cluster.is_joined() else Machine.detect()


def _run_search(
    plan: Plan,
    folder: ExperimentFolder,
    *,
    resumed: bool = False,
    written: dict[str, Any] | None = None,
    **how: Any,
) -> Results:
    """Search as the only driver of the experiment. written: its new experiment.json, if any."""
    from tuner.search.driver import Driver
    from tuner.search.tune_run import TuneRun

    for code in find_code(plan.spec.model_dump(mode="json")):
        code.remember()  # this user runs it: a resume need not ask
    with Driver.open(plan, folder, **how) as driver:
        if written:
            folder.write(EXPERIMENT, written)
        return TuneRun(driver, resumed=resumed).run()


def create(plan: Plan) -> ExperimentFolder:
    """Create an experiment's folder. Raises as `ExperimentFolder.create`."""
    folder = ExperimentFolder(plan.spec.folder)
    document = describe(plan.spec)
    if data := plan.data:
        document["spec"]["training"] |= data.recorded
        of_data = {DATA: data.content, VALIDATION: data.baseline}
        document |= {name: value for name, value in of_data.items() if value}
    folder.create(document, empty=[JOURNAL])
    if plan.warm_start:
        plan.warm_start.save(folder.path)
    return folder


def describe(spec: ExperimentSpec) -> dict[str, Any]:
    """{format, spec, seed, versions, git_revision}: the resolved spec, and installed versions."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "format": FORMAT,
        "spec": spec.model_dump(mode="json"),
        "seed": spec.seed,
        "versions": versions,
        "git_revision": _read_git_revision(),
    }


def _read_git_revision() -> str | None:
    """The commit of the working directory; None without a repository or git."""
    try:
        git = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return git.stdout.strip()
