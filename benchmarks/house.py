"""The code in figures, of this checkout and of another one beside it.

    python -m benchmarks.house [OTHER_CHECKOUT]
    python -m benchmarks.house --limits    exit code 1 if a figure is above its limit in LIMITS

Code is what ships: tuner/, experiments/, search_spaces/. Units are the modules and packages right
below tuner/. An import runs up by the table in tests/test_architecture.py, which says nothing ("-")
of a checkout whose units are others.

Tests are functions, however many cases each has. A mock is a call of `monkeypatch.setattr`,
`.setitem`, `.delattr` or `.delitem`, of `patch` or one of its methods, or of a method of `mocker`.
Another's private attribute is `x._name`, unless x is self, cls or super(); or such a name imported.
Words of documentation are those of README.md and docs/ but for docs/spec.md, which is generated.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))  # as for pytest

from test_architecture import LAYERS, LEAVES, OURS, files_of, imports_of, room_of  # noqa: E402

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
VERBS = """
add append apply ask begin build calculate can cancel check choose clean clear clip close
collect compare complete compute connect continue convert copy count create crop decode decrease
delete describe disconnect download draw drop emit encode end ensure estimate evaluate export
extract fetch filter find fit flip flush format freeze gather generate group has import increase
infer init initialize insert interrupt is iter iterate join keep kill list load lock log map
match measure merge move must normalize notify open parse pick plot pop predict print prune push
put queue raise rank read receive record refresh register remove rename render replace report
reset resolve restore resume retry run sample save scale score select send serve set setup
should show sort split start stop store suggest summarize sync take tell test train transform
unlock update upload validate visit visualize wait walk warn wrap write yield
"""
PREPOSITIONS = (
    "of",
    "in",
    "at",
    "by",
    "with",
    "from",
    "to",
    "for",
    "after",
    "before",
    "on",
)
# What there was on 2026-11-29, and a little more; expressions a line may only fall
LIMITS = {
    "tuner: expressions": 163_300,
    "tuner: statements": 30_860,
    "tuner: expressions a line": 3.6,
    "tuner: parallel assignments": 0.5,
    "tuner: without a verb first, %": 17.8,
    "tuner: with a preposition last, %": 0.4,
    "tests: expressions": 165_500,
    "tests: statements": 28_600,
    "tests: expressions a line": 4.26,
    "tests: parallel assignments": 0.5,
    "tests: without a verb first, %": 29.5,
    "tests: with a preposition last, %": 2.6,
    "benchmarks: expressions": 22_920,
    "benchmarks: statements": 3_810,
    "benchmarks: expressions a line": 4.23,
    "benchmarks: parallel assignments": 0.5,
    "benchmarks: without a verb first, %": 76.7,
    "benchmarks: with a preposition last, %": 7.3,
    "modules": 330,
    "modules of benchmarks": 29,
    "packages below tuner/": 11,
    "words of documentation": 24_250,
    "lines of the README": 220,
    "mocks per 100 tests": 8.6,
}
REPLACING = ("setattr", "setitem", "delattr", "delitem")


def content(root: Path) -> dict[str, float]:
    """What there is to read in the modules of a folder, without regard to line breaks.

    expressions and statements of the syntax tree; expressions a line of code; parallel assignments
    (`a, b = x, y`) a thousand statements; the shares of functions, properties aside, whose names do
    not begin with a verb, and end in a preposition.
    """
    count: Counter[str] = Counter()
    verbs = {*VERBS.split()}
    for path in root.rglob("*.py"):
        source = path.read_text()
        lines = (line.strip() for line in source.splitlines())
        count["lines"] += sum(bool(line) and not line.startswith("#") for line in lines)
        for node in ast.walk(ast.parse(source)):
            count["expressions"] += isinstance(node, ast.expr)
            count["statements"] += isinstance(node, ast.stmt)
            count["parallel"] += is_parallel(node)
            if isinstance(node, FUNCTIONS) and not is_exempt(node):
                words = node.name.strip("_").split("_")
                count["functions"] += 1
                count["verbs"] += words[0] in verbs
                count["prepositions"] += words[-1] in PREPOSITIONS and len(words) > 1
    functions = count["functions"] or 1  # of a folder without any
    return {
        "expressions": count["expressions"],
        "statements": count["statements"],
        "expressions a line": round(count["expressions"] / (count["lines"] or 1), 2),
        "parallel assignments": round(
            1000 * count["parallel"] / (count["statements"] or 1), 1
        ),
        "without a verb first, %": round(100 - 100 * count["verbs"] / functions, 1),
        "with a preposition last, %": round(100 * count["prepositions"] / functions, 1),
    }


def is_parallel(node: ast.AST) -> bool:
    """Whether it assigns several values to several names at once."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    return isinstance(node.targets[0], ast.Tuple)


def is_exempt(function: ast.AST) -> bool:
    """Whether a function's name follows other rules: a property's, or one that Python gives."""
    decorators = [
        getattr(d, "attr", getattr(d, "id", "")) for d in function.decorator_list
    ]
    is_property = bool({"property", "cached_property", "setter"} & {*decorators})
    return is_property or function.name.startswith("__")


def tests(tree: ast.AST) -> int:
    """Test functions, the methods of classes included."""
    return sum(
        isinstance(n, FUNCTIONS) and n.name.startswith("test_") for n in ast.walk(tree)
    )


def mocks(tree: ast.AST) -> int:
    """Calls that put something else in a thing's place."""
    calls = (
        ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)
    )
    paths = (call.split(".") for call in calls)
    return sum(
        "patch" in p[-2:] or "mocker" in p[:-1] or p[-1] in REPLACING for p in paths
    )


def words_of_documentation(root: Path) -> int:
    pages = [*root.glob("README.md"), *(root / "docs").rglob("*.md")]
    return sum(
        len(page.read_text().split()) for page in pages if page.name != "spec.md"
    )


def lines_of_readme(root: Path) -> int:
    return sum(len(page.read_text().splitlines()) for page in root.glob("README.md"))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_uses(tree: ast.AST) -> Iterator[str]:
    """Others' private attributes, and private names that are imported from a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            if ast.unparse(node.value) not in ("self", "cls", "super()"):
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                f"{node.module}.{a.name}" for a in node.names if _is_private(a.name)
            )


def private_modules(tree: ast.AST) -> int:
    """Statements that import from a module of ours with a private name in its path."""
    found = (
        node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    )
    return sum(
        m.startswith("tuner.") and any(map(_is_private, m.split("."))) for m in found
    )


def units_in_cycles(graph: Mapping[str, set[str]]) -> int:
    """How many units import themselves by way of others."""
    reached = {unit: set(others) for unit, others in graph.items()}
    for between in graph:  # Warshall's transitive closure
        for others in reached.values():
            if between in others:
                others |= reached[between]
    return sum(unit in others for unit, others in reached.items())


def imports_up(graph: Mapping[str, set[str]]) -> int | str:
    """Pairs of units of which one imports what stands above it; "-" where the table lacks one."""
    if not graph.keys() <= {*LAYERS, *LEAVES}:
        return "-"
    rank = {
        unit: LAYERS.index(unit) if unit in LAYERS else len(LAYERS) for unit in graph
    }
    return sum(
        rank[other] < rank[unit] for unit, others in graph.items() for other in others
    )


def units(root: Path) -> dict[str, set[str]]:
    """The units of a checkout, each with the others that it imports."""
    files = files_of(root)
    graph: dict[str, set[str]] = {}
    for name in files.keys() - {"tuner"}:
        others = {room_of(other) for other in imports_of(name, files) - {"tuner"}}
        graph.setdefault(room_of(name), set()).update(others - {room_of(name)})
    return graph


def figures(root: Path) -> dict[str, object]:
    """The rows of the table, of one checkout."""
    folders = {name: content(root / name) for name in ("tuner", "tests", "benchmarks")}
    rows = {
        f"{name}: {what}": n
        for name, each in folders.items()
        for what, n in each.items()
    }
    trees = [ast.parse(path.read_text()) for path in (root / "tests").rglob("*.py")]
    modules = {path.name for path in (root / "tuner").glob("*.py")}
    count = sum(map(tests, trees))
    graph = units(root)
    return rows | {
        "modules": sum(1 for top in OURS for _ in (root / top).rglob("*.py")),
        "modules of benchmarks": sum(1 for _ in (root / "benchmarks").rglob("*.py")),
        "packages below tuner/": len([*(root / "tuner").glob("*/__init__.py")]),
        "modules right below tuner/": len(modules - {"__init__.py", "__main__.py"}),
        "units in import cycles": units_in_cycles(graph),
        "imports that run up": imports_up(graph),
        "tests": count,
        "words of documentation": words_of_documentation(root),
        "lines of the README": lines_of_readme(root),
        "mocks per 100 tests": round(100 * sum(map(mocks, trees)) / count, 1),
        "others' private attributes in tests": sum(
            len([*private_uses(t)]) for t in trees
        ),
        "imports from private modules in tests": sum(map(private_modules, trees)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "other", nargs="?", type=Path, help="the root of another checkout"
    )
    parser.add_argument("--limits", action="store_true", help="compare with LIMITS")
    arguments = parser.parse_args()
    columns = [figures(root) for root in (ROOT, arguments.other) if root]
    for name in columns[0]:
        print(f"{name:<40}", *(f"{column[name]:>10}" for column in columns))
    above = {name: limit for name, limit in LIMITS.items() if columns[0][name] > limit}
    if arguments.limits and above:
        sys.exit(
            "\n".join(f"{name}: at most {limit:,}" for name, limit in above.items())
        )


if __name__ == "__main__":
    main()
