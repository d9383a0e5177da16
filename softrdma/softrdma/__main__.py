# SPDX-License-Identifier: BSD-3-Clause
"""The command line: ``python -m softrdma run [OPTIONS] -- PROGRAM ARGS``, ``python -m softrdma faults COMMAND``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import __version__, faults, library, preload


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="softrdma", description="A software RDMA host.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a program on the host", description="Run a program on the host.")
    nics = run.add_mutually_exclusive_group()
    nics.add_argument("--devices", metavar="LIST", help="what NICs there are: rxe:2 (the default), rxe:2,efa@3:1")
    nics.add_argument(
        "--efa",
        metavar="GENERATION",
        type=int,
        nargs="?",
        const=-1,
        help="two EFA devices, of a generation from 0 to 4 (the newest); --efa=N, or before another option",
    )
    run.add_argument("--fabric", metavar="NAME", help="reach processes that name the same (default: one per user)")
    run.add_argument("--reorder", metavar="SEED", type=int, help="SRD delivers out of order, as the seed has it")
    run.add_argument(
        "--fault", metavar="RULE", action="append", default=[], help="what goes wrong, such as drop:probability=0.1"
    )
    run.add_argument("--seed", type=int, metavar="N", help="what decides the chances of faults")
    run.add_argument("--trace", action="store_true", help="calls and requests on stderr")
    run.add_argument("program", metavar="PROGRAM")
    run.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS")
    control = commands.add_parser(
        "faults",
        help="what goes wrong for programs that run already",
        description="For running programs: add RULE, remove NUMBER, clear, reset, list, objects, seed [N], who.",
    )
    control.add_argument("--fabric", metavar="NAME", help="of the programs on that fabric")
    control.add_argument("--pid", type=int, help="of that one alone")
    control.add_argument("words", nargs="+", metavar="COMMAND")
    commands.add_parser("library", help="print the path of the library for LD_PRELOAD")
    return parser


def _exec(program: str, args: Sequence[str], env: dict[str, str]) -> NoReturn:
    try:
        os.execvpe(program, [program, *args], env)
    except OSError as error:
        print(f"softrdma: {program}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def _control(options: argparse.Namespace) -> int:
    try:
        for answer in faults.attach(options.fabric, pid=options.pid).command(" ".join(options.words)):
            if answer:
                print(answer.rstrip())
    except (faults.FaultError, ProcessLookupError) as error:
        print(f"softrdma: {error}", file=sys.stderr)
        return 1
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    if options.command == "library":
        print(library())
        return 0
    if options.command == "faults":
        return _control(options)
    env = dict(os.environ)
    devices = options.devices
    if options.efa is not None:
        devices = "efa:2" if options.efa < 0 else f"efa@{options.efa}:2"
    preload(env, devices=devices, fabric=options.fabric)
    if options.reorder is not None:
        env["SOFTRDMA_REORDER"] = str(options.reorder)
    rules = [f"seed={options.seed}"] if options.seed is not None else []
    rules += options.fault
    if rules:
        env["SOFTRDMA_FAULTS"] = ";".join(rules)
    if options.trace:
        env["SOFTRDMA_TRACE"] = "1"
    _exec(options.program, options.args, env)


if __name__ == "__main__":
    sys.exit(main())
