"""Makes one-token faults in tuner/, one at a time, and says which the tests miss.

    python -m benchmarks.mutants [--seed 0] [--count 24]        two hours of one core

Each fault is made in a copy of the repository. Then the tests of its module run, those of its room
and all of `make test`, until one fails. Exits with 1 if more than a twelfth of the faults survive.
"""

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAIRS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn))
PAIRS += (
    (ast.Is, ast.IsNot),
    (ast.And, ast.Or),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
)
SWAPPED = dict(PAIRS) | {second: first for first, second in PAIRS}
# Annotations and messages
SKIPPED = (ast.AnnAssign, ast.Assert, ast.JoinedStr, ast.Raise)


def list_sites(tree):
    """The nodes of which a token can be changed, in order."""
    for node in ast.iter_child_nodes(tree):
        # What `frozen` and `slots` forbid, no code does
        is_dataclass = getattr(getattr(node, "func", None), "id", None) == "dataclass"
        if not is_dataclass and not isinstance(node, SKIPPED):
            is_number = isinstance(node, ast.Constant) and type(node.value) in (
                bool,
                int,
            )
            token = (
                node.ops[0]
                if isinstance(node, ast.Compare)
                else getattr(node, "op", None)
            )
            if is_number or type(token) in (*SWAPPED, ast.Not):
                yield node
            yield from list_sites(node)


def mutate(node):
    """Change a token of the node, in place."""
    if isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPPED[type(node.ops[0])]()
    elif isinstance(node, ast.UnaryOp):
        node.operand = ast.UnaryOp(ast.Not(), node.operand)
    else:
        node.op = SWAPPED[type(node.op)]()


def survives(copy, module):
    """Whether all tests pass, those of the module and of its room first."""
    same = Path("tests", *module.parts[1:-1], f"test_{module.name.lstrip('_')}")
    room = module.parts[1].removesuffix(".py")
    for place in (same, Path("tests", room), Path("tests")):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-m",
            "not (slow or nodes or docs)",
            place,
        ]
        done = (copy / place).exists() and subprocess.run(
            command, cwd=copy, capture_output=True
        )
        if done and done.returncode:
            return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=24)
    arguments = parser.parse_args()
    paths = sorted((ROOT / "tuner").rglob("*.py"))
    trees = {path.relative_to(ROOT): ast.parse(path.read_text()) for path in paths}
    sites = [
        (module, node) for module, tree in trees.items() for node in list_sites(tree)
    ]
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(
            ROOT, Path(folder, "copy"), ignore=shutil.ignore_patterns(".*")
        )
        for module, node in random.Random(arguments.seed).sample(
            sites, arguments.count
        ):
            before = ast.unparse(node)
            kept = {**vars(node), "ops": [*getattr(node, "ops", ())]}
            mutate(node)
            (copy / module).write_text(ast.unparse(trees[module]))
            is_missed = survives(copy, module)
            killed += not is_missed
            fault = f"{module}:{node.lineno}: {before} -> {ast.unparse(node)}"
            print("survives" if is_missed else "killed", fault, flush=True)
            vars(node).update(kept)
            shutil.copy(ROOT / module, copy / module)
    print(f"{killed} of {arguments.count} killed")
    sys.exit(killed < arguments.count * 11 / 12)


if __name__ == "__main__":
    main()
