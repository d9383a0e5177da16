# SPDX-License-Identifier: BSD-3-Clause
"""How a table is printed."""
from __future__ import annotations

from collections.abc import Mapping, Sequence


def table(title: str, heads: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    """Numbers under their heads, aligned to the right; a cell may end in a mark or a blank of its own."""
    if not rows:
        return
    left = max(map(len, rows))
    widths = [max(len(cell) for cell in (head, *(row[i] for row in rows.values()))) for i, head in enumerate(heads)]
    print(f"\n{title}\n{'':{left}}  " + "  ".join(f"{head:>{width}}" for head, width in zip(heads, widths)))
    for name, row in rows.items():
        print(f"{name:<{left}}  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths)), flush=True)
