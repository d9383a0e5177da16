# SPDX-License-Identifier: BSD-3-Clause
"""``python -m`` of the package: see devinfo.py."""

import signal
import sys

from .devinfo import main

if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # "| head" ends it without a word
    sys.exit(main())
