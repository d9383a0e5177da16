# SPDX-License-Identifier: BSD-3-Clause
"""The extension module of this package, under the name by which the Python that two packages share finds it."""

from . import _ibverbs as extension

__all__ = ["extension"]
