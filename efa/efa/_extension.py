# SPDX-License-Identifier: BSD-3-Clause
"""The extension module of this package and its exception, under the names by which shared Python finds them."""

from . import _efa as extension
from ._efa import EfaError as LibraryError

__all__ = ["LibraryError", "extension"]
