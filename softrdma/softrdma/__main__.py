# SPDX-License-Identifier: BSD-3-Clause
"""The command line: ``python -m softrdma run [--devices LIST] [--fabric NAME] [--trace] -- PROGRAM ARGS``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import __version__, library, preload


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="softrdma", description="A software RDMA host.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a program on the host", description="Run a program on the host.")
    run.add_argument("--devices", metavar="LIST", help="what NICs there are, such as rxe:2 (the default)")
    run.add_argument("--fabric", metavar="NAME", help="reach processes that name the same (default: one per user)")
    run.add_argument("--trace", action="store_true", help="calls and requests on stderr")
    run.add_argument("program", metavar="PROGRAM")
    run.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS")
    commands.add_parser("library", help="print the path of the library for LD_PRELOAD")
    return parser


def _exec(program: str, args: Sequence[str], env: dict[str, str]) -> NoReturn:
    try:
        os.execvpe(program, [program, *args], env)
    except OSError as error:
        print(f"softrdma: {program}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    if options.command == "library":
        print(library())
        return 0
    env = dict(os.environ)
    preload(env, devices=options.devices, fabric=options.fabric)
    if options.trace:
        env["SOFTRDMA_TRACE"] = "1"
    _exec(options.program, options.args, env)


if __name__ == "__main__":
    sys.exit(main())
