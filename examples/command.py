# SPDX-License-Identifier: BSD-3-Clause
"""What the examples' commands share: numbers with bounds, and an end without a traceback for what is nobody's bug."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Callable


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """An argparse type: an integer within bounds."""

    def convert(text: str) -> int:
        value = int(text)
        if value < least or (most is not None and value > most):
            bounds = f"at least {least}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"{text} is not {bounds}")
        return value

    convert.__name__ = "whole number"  # what argparse calls it
    return convert


def run(main: Callable[[], object]) -> None:
    """Run the program. Ctrl-C, and what the system, a verb or a completion refuses, end it with a line at most."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # nobody reads what it prints
        os._exit(1)
    except (OSError, MemoryError, EOFError) as error:  # a VerbsError is an OSError
        sys.exit(f"{os.path.basename(sys.argv[0])}: {str(error) or type(error).__name__}")
