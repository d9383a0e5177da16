# SPDX-License-Identifier: BSD-3-Clause
"""The extension is imported, used, dropped and imported again, many times; old and new objects do not mix."""

import gc
import sys

from common import forget_modules, one_of_each, package, stub

old = None
for _ in range(30):
    ib = package()

    objects = one_of_each(ib)
    if old is not None and old["qp"].__class__ is not objects["qp"].__class__:
        try:
            objects["ctx"].create_cq(4, old["channel"])
        except TypeError:
            pass
        else:
            sys.exit("a channel of another module object was taken")
    old = objects
    del objects, ib
    forget_modules()
    gc.collect()
old = None
gc.collect()
assert stub.live_objects() == {}
