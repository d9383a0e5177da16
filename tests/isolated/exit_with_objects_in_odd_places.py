# SPDX-License-Identifier: BSD-3-Clause
"""Objects that outlive most of the interpreter: in builtins, in sys, in a class, in a thread, in an exit handler, and
in objects whose own finalizers use them."""

import atexit
import builtins
import sys
import threading
import weakref

from common import one_of_each, package

ib = package()

builtins.kept = one_of_each(ib)
sys.kept = one_of_each(ib)


class Keeper:
    kept = one_of_each(ib)

    def __init__(self):
        self.mine = one_of_each(ib)

    def __del__(self):
        # Late in the exit some of these raise; none may crash.
        for handle in (self.mine["qp"], self.mine["cq"], self.mine["ctx"]):
            try:
                repr(handle)
                assert handle.closed in (False, True)
                handle.close()
            except Exception:
                pass
        try:
            self.mine["cq"].poll(1)
        except Exception:
            pass


keeper = Keeper()
keeper.me = keeper
builtins.keeper = Keeper()
local = threading.local()
local.kept = one_of_each(ib)
handlers = one_of_each(ib)
weakref.finalize(handlers["mr"], handlers["ctx"].query_device)


def at_exit():
    assert handlers["cq"].poll(1) == []
    handlers["qp"].close()
    for name in ("cq", "cq_ex"):
        if name in handlers:
            handlers[name].close()
    handlers["channel"].close()


atexit.register(at_exit)


def generator():
    kept = one_of_each(ib)
    try:
        yield
    finally:
        kept["mr"].close()


running = generator()
next(running)
