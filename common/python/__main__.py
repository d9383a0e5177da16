# SPDX-License-Identifier: BSD-3-Clause
"""``python -m`` of the package: see devinfo.py."""

import sys

from .devinfo import main

if __name__ == "__main__":
    sys.exit(main())
