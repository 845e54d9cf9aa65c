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
import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))  # as for pytest

from test_architecture import LAYERS, LEAVES, OURS, files_of, imports_of, room_of  # noqa: E402

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)
SHORT = 60  # lines
LIMITS = {
    "lines": 42_700,
    "modules": 260,
    "packages below tuner/": 11,
    "lines of tests": 41_000,
    "words of documentation": 23_000,
    "lines of the README": 220,
}
REPLACING = ("setattr", "setitem", "delattr", "delitem")


def lines_by_kind(source: str) -> dict[str, int]:
    """Each line once: a docstring's or an import's with all its lines, else by what it holds."""
    tree = ast.parse(source)
    kinds = dict.fromkeys(("code", "blank", "docstring", "comment", "import"), 0)
    known: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            known |= dict.fromkeys(range(node.lineno, node.end_lineno + 1), "import")
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            text = node.body[0]
            known |= dict.fromkeys(range(text.lineno, text.end_lineno + 1), "docstring")
    for number, line in enumerate(source.splitlines(), 1):
        text = line.strip()
        bare = "comment" if text.startswith("#") else "code" if text else "blank"
        kinds[known.get(number, bare)] += 1
    return kinds


def function_lengths(source: str) -> list[int]:
    """Lines of each function, from its `def` to its end; those within count in both."""
    found = (node for node in ast.walk(ast.parse(source)) if isinstance(node, FUNCTIONS))
    return [node.end_lineno - node.lineno + 1 for node in found]


def tests(tree: ast.AST) -> int:
    """Test functions, the methods of classes included."""
    return sum(isinstance(n, FUNCTIONS) and n.name.startswith("test_") for n in ast.walk(tree))


def mocks(tree: ast.AST) -> int:
    """Calls that put something else in a thing's place."""
    calls = (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    paths = (call.split(".") for call in calls)
    return sum("patch" in p[-2:] or "mocker" in p[:-1] or p[-1] in REPLACING for p in paths)


def words_of_documentation(root: Path) -> int:
    pages = [*root.glob("README.md"), *(root / "docs").rglob("*.md")]
    return sum(len(page.read_text().split()) for page in pages if page.name != "spec.md")


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
            yield from (f"{node.module}.{a.name}" for a in node.names if _is_private(a.name))


def private_modules(tree: ast.AST) -> int:
    """Statements that import from a module of ours with a private name in its path."""
    found = (node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return sum(m.startswith("tuner.") and any(map(_is_private, m.split("."))) for m in found)


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
    rank = {unit: LAYERS.index(unit) if unit in LAYERS else len(LAYERS) for unit in graph}
    return sum(rank[other] < rank[unit] for unit, others in graph.items() for other in others)


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
    sources = [path.read_text() for top in OURS for path in (root / top).rglob("*.py")]
    kinds = [lines_by_kind(source) for source in sources]
    lengths = [length for source in sources for length in function_lengths(source)]
    test_sources = [path.read_text() for path in (root / "tests").rglob("*.py")]
    trees = [ast.parse(source) for source in test_sources]
    modules = {path.name for path in (root / "tuner").glob("*.py")}
    count, graph = sum(map(tests, trees)), units(root)
    return {
        "lines": sum(sum(kind.values()) for kind in kinds),
        **{f"  {name}": sum(kind[name] for kind in kinds) for name in kinds[0]},
        "modules": len(sources),
        f"  below {SHORT} lines": sum(len(s.splitlines()) < SHORT for s in sources),
        "packages below tuner/": len([*(root / "tuner").glob("*/__init__.py")]),
        "modules right below tuner/": len(modules - {"__init__.py", "__main__.py"}),
        "functions": len(lengths),
        "  length, median": statistics.median(lengths),
        "  length, p90": statistics.quantiles(lengths, n=10)[-1],
        "  length, longest": max(lengths),
        "units in import cycles": units_in_cycles(graph),
        "imports that run up": imports_up(graph),
        "tests": count,
        "lines of tests": sum(len(source.splitlines()) for source in test_sources),
        "words of documentation": words_of_documentation(root),
        "lines of the README": lines_of_readme(root),
        "mocks per 100 tests": round(100 * sum(map(mocks, trees)) / count, 1),
        "others' private attributes in tests": sum(len([*private_uses(t)]) for t in trees),
        "imports from private modules in tests": sum(map(private_modules, trees)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", nargs="?", type=Path, help="the root of another checkout")
    parser.add_argument("--limits", action="store_true", help="compare with LIMITS")
    arguments = parser.parse_args()
    columns = [figures(root) for root in (ROOT, arguments.other) if root]
    for name in columns[0]:
        print(f"{name:<40}", *(f"{column[name]:>10}" for column in columns))
    above = {name: limit for name, limit in LIMITS.items() if columns[0][name] > limit}
    if arguments.limits and above:
        sys.exit("\n".join(f"{name}: at most {limit:,}" for name, limit in above.items()))


if __name__ == "__main__":
    main()
