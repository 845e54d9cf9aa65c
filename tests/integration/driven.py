"""The command line as integration tests drive it, in this process or in one of its own."""

import json

import commands


def call(*arguments):
    """What a command gives in this process: `return_value` is its exit code."""
    done = commands.call(*arguments)
    if done.exception is not None:
        raise done.exception
    return done


def shown(*arguments):
    """The document that a command shows with --json."""
    return json.loads(call(*arguments, "--json").stdout)


def start(*arguments, cwd, **options):
    """The command as a process that leads a group, as a shell starts it."""
    return commands.start(*arguments, cwd=cwd, start_new_session=True, **options)
