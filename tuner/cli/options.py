"""How a command declares itself, and the options that several commands take."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, Literal, NamedTuple

import click

import tuner
from tuner.cluster import LOCAL
from tuner.errors import UsageError
from tuner.wording import parse_duration

# In this order
Section = Literal["Search", "Look", "Explain", "Hand over", "Keep", "Cluster"]


class Command(click.Command):
    """A command that has a place in the help. It returns its exit code, or None for 0.

    section: of `tuner --help`; order: among the commands of that section, the lowest first;
    examples: whole command lines, which its own help ends with.
    """

    def __init__(
        self,
        *args: Any,
        section: Section,
        order: int,
        examples: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.section = section
        self.order = order
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {example}\n" for example in self.examples))


class Group(Command, click.Group):
    """A command that has commands of its own, in one module: `tuner queue add`."""

    command_class = click.Command


def command(
    section: Section, order: int, *examples: str, help: str | None = None
) -> Callable[[Callable[..., Any]], Command]:
    return click.command(
        cls=Command, section=section, order=order, examples=examples, help=help
    )


def group(
    section: Section, order: int, *examples: str
) -> Callable[[Callable[..., Any]], Group]:
    """The decorator of a function that is a command with commands of its own."""
    return click.group(cls=Group, section=section, order=order, examples=examples)


def duration(value: str | float) -> float:
    """Seconds, from `90`, `90s`, `10m` or `1h30m`."""
    try:
        return parse_duration(value) if isinstance(value, str) else value
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _combine_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


def count(
    flag: str, metavar: str, *, help: str, default: int | None = None
) -> Callable[[Any], Any]:
    """The option `flag` for a number of at least 1."""
    number = click.IntRange(min=1)
    return click.option(
        flag,
        type=number,
        default=default,
        show_default=True,
        metavar=metavar,
        help=help,
    )


def where(example: str) -> Callable[[Any], Any]:
    """An option for an expression that chooses rows, as `rows.select_rows` reads it."""
    return click.option(
        "--where",
        metavar="EXPR",
        help=f"Show only those for which EXPR holds: {example}.",
    )


def _list_searchers() -> str:
    """The strategies that ship; listed without `tuner.spec`, whose import would slow the help."""
    modules = pkgutil.iter_modules(import_module("tuner.search.searchers").__path__)
    return ", ".join(sorted(module.name for module in modules if module.name[0] != "_"))


class _Setting(NamedTuple):
    """An option that sets the field at `path` of the spec; a `list` may be given several times."""

    path: str
    help: str
    metavar: str | None = "NAME"
    kind: Any = str


_SETTINGS = {
    "search": _Setting(
        "search.strategy",
        f"The search strategy: {_list_searchers()}, or a module of your own.",
    ),
    "scheduler": _Setting(
        "scheduler.name",
        "What stops poor trials early: asha, none, or a module of your own.",
    ),
    "num-samples": _Setting("num_samples", "Run N trials.", "N", int),
    "max-concurrent": _Setting(
        "max_concurrent",
        "Run at most N trials at a time.  [default: as many as fit]",
        "N",
        int,
    ),
    "time-budget": _Setting(
        "time_budget_s",
        "End the search after this time, as in 10m or 2h.",
        None,
        duration,
    ),
    "seed": _Setting("seed", "The seed of all configs and of the training.", "N", int),
    "cpus": _Setting("resources.cpus", "CPUs for each worker of a trial.", "X", float),
    "gpus": _Setting(
        "resources.gpus",
        "GPUs for each worker of a trial; with 0.25, four trials share one.",
        "X",
        float,
    ),
    "workers": _Setting(
        "resources.workers",
        "Train each trial in N processes (DistributedDataParallel).",
        "N",
        int,
    ),
    "name": _Setting(
        "name",
        "What to call the experiment.  [default: as EXPERIMENT, or the next free name]",
    ),
    "from": _Setting(
        "warm_start",
        "Learn from the trials of this earlier experiment; grid and random skip its configs. May "
        "be given several times, and . names all experiments of the storage: the search begins "
        "with the best configs of each.",
        kind=list,
    ),
    "storage": _Setting(
        "storage",
        "The folder of all experiments, or s3://BUCKET/FOLDER.  "
        "[default: $TUNER_STORAGE, else ./results]",
        "DIR",
    ),
    "log": _Setting(
        "log",
        "Log to wandb, mlflow or a tracker of a package, too. May be given several times.",
        kind=list,
    ),
    "notify": _Setting(
        "notify",
        "Send a message to this URL at the end, at the first failure and at a new best. May be "
        "given several times.",
        "TARGET",
        list,
    ),
    "refit": _Setting(
        "refit",
        "Whether to train the best config on training and validation images at the end, within "
        "the time budget.  [default: as EXPERIMENT says]",
        kind=bool,
    ),
    "data-dir": _Setting(
        "training.data_dir", "The folder with the data sets (training.data_dir).", "DIR"
    ),
}


def _build_option(flag: str) -> Callable[[Any], Any]:
    _, help, metavar, kind = _SETTINGS[flag]
    if kind is bool:
        return click.option(f"--{flag}/--no-{flag}", default=None, help=help)
    is_list = kind is list
    kind = str if is_list else kind
    return click.option(
        f"--{flag}", type=kind, multiple=is_list, metavar=metavar, help=help
    )


storage, max_concurrent, notify, cpus, gpus = map(
    _build_option, ("storage", "max-concurrent", "notify", "cpus", "gpus")
)
address = click.option(
    "--address",
    default=LOCAL,
    metavar="ADDRESS",
    help="Where trials run: local (this machine), auto (the Ray cluster that this machine is part "
    "of) or the HOST:PORT of a Ray cluster.  [default: local]",
)
wait_for_resources = click.option(
    "--wait-for-resources",
    type=duration,
    help="How long to wait for a node that a trial fits on.  "
    "[default: 10m where the cluster autoscales, else 0s]",
)
final = click.option(
    "--final",
    is_flag=True,
    help="Refit on the test images, too; nothing measures that model.",
)
evaluate = click.option(
    "--evaluate/--no-evaluate",
    default=True,
    help="Whether to measure the best trial on the test split at the end.  [default: evaluate]",
)
optional_spec = _combine_options(
    click.argument("experiment", required=False),
    click.option(
        "--like",
        metavar="NAME",
        help="Take the spec of this earlier experiment in place of EXPERIMENT, and learn from its "
        "trials (--from).",
    ),
    click.argument("assignments", nargs=-1, metavar="[KEY=VALUE ...]"),
    click.option(
        "--command",
        metavar="TEXT",
        help="Train by this command, in place of EXPERIMENT or of its trainable: any script, as in "
        "'python train.py --lr {lr}'.",
    ),
    *map(_build_option, _SETTINGS),
    final,
)
spec = _combine_options(optional_spec, address)
sort = _combine_options(
    click.option("--sort", metavar="COLUMN", help="Sort by this column, ascending."),
    click.option("--reverse", is_flag=True, help="Reverse the order."),
)
trust = click.option(
    "--trust",
    "--yes",
    "trust",
    is_flag=True,
    help="Run the code that a folder names without asking.",
)
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document."
)
storage_and_json = _combine_options(storage, as_json)


def experiment(function: Callable[..., Any]) -> Any:
    """The argument NAME and --storage, in place of which the command gets the `results`."""

    @wraps(function)
    def load_and_run(name: str, storage: str | None, **others: Any) -> Any:
        return function(results=tuner.load_results(name, storage), **others)

    return _combine_options(click.argument("name"), storage)(load_and_run)


trial = click.option(
    "--trial", "trial_id", metavar="ID", help="Take this trial instead of the best one."
)
formats = click.option(
    "--format",
    "formats",
    type=click.Choice(("onnx", "torch-export", "onnx-pixels", "torch-export-pixels")),
    multiple=True,
    help="Also write the model in this format. May be given several times. Those that end in "
    "-pixels take uint8 pixels and give probabilities.",
)
job = click.argument("job_id", metavar="ID")
dashboard = click.option(
    "--address",
    required=True,
    envvar="RAY_API_SERVER_ADDRESS",
    metavar="http://HEAD:8265",
    help="The address of the cluster's dashboard.  [default: $RAY_API_SERVER_ADDRESS]",
)


def list_assignments(flags: Mapping[str, Any]) -> list[str]:
    """The flags of `spec` that were set, as KEY=VALUE: all values are read in one way.

    Raises UsageError for flags that contradict each other.
    """
    if flags.get("final"):
        if flags["refit"] is False:
            raise UsageError("--final is a refit on all images: leave --no-refit out")
        flags = {**flags, "refit": "final"}
    values = {
        each.path: flags.get(flag.replace("-", "_")) for flag, each in _SETTINGS.items()
    }
    return [
        f"{path}={json.dumps(v)}" for path, v in values.items() if v not in (None, ())
    ]
