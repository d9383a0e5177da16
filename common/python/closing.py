# SPDX-License-Identifier: BSD-3-Clause
"""What ends by ``close()``, for classes in Python: ``with``, the error of whoever comes too late, and iterators that
end with their object."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ._extension import LibraryError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Closing", "until_closed"]


class Closing:
    """Base of a class that has ``close()`` and ``closed``."""

    __slots__ = ()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what it holds. Twice is harmless."""
        raise NotImplementedError

    def _check_open(self, name: str) -> None:
        """Before what ``name`` does. Raises EBADF where it is closed."""
        if self.closed:
            kind = type(self).__name__
            raise LibraryError(f"{kind}.{name}", errno.EBADF, f"the {kind} is closed")

    def __enter__(self) -> Self:
        self._check_open("__enter__")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def until_closed() -> Iterator[None]:
    """Around the loop of an iterator that waits: it ends when what it waits for is closed."""
    try:
        yield
    except LibraryError as error:
        if error.errno != errno.EBADF:
            raise
