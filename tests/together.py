# SPDX-License-Identifier: BSD-3-Clause
"""Several threads that begin at once."""

from __future__ import annotations

import threading
from typing import Any, Callable

from place import seconds


def together(*bodies: Callable[[], Any], timeout: float = 20) -> list[Any]:
    """Runs each in a thread of its own, at once; what they returned, or the first of their exceptions."""
    results: list[Any] = [None] * len(bodies)
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(bodies))

    def run(i: int) -> None:
        try:
            barrier.wait(seconds(5))
            results[i] = bodies[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds(timeout))
        assert not thread.is_alive(), "a thread did not end"
    if errors:
        raise errors[0]
    return results
