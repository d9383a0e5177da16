# SPDX-License-Identifier: BSD-3-Clause
"""The package and objects of every kind become garbage in one cycle: all is freed, in whatever order."""

import gc
import random

from common import extension, forget_modules, one_of_each, package, stub

for seed in range(20):
    ib = package()

    objects = one_of_each(ib)
    # Completions and errors hold their class where the collector cannot see it: they would keep the module.
    del objects["wc"], objects["error"]
    order = list(objects.items())
    random.Random(seed).shuffle(order)
    knot = dict(order)
    knot["module"] = ib
    knot["extension"] = extension(ib)
    knot["me"] = knot
    ib.knot = knot
    extension(ib).knot = knot
    assert stub.live() >= 8
    del objects, order, knot, ib
    forget_modules()
    for _ in range(3):
        gc.collect()
    assert stub.live_objects() == {}, stub.live_objects()
    assert stub.violations == 0

# The same, with one object kept by somebody else: it works on although the module is gone from sys.modules.
for kind in "ctx pd channel cq srq cq_ex mr qp ah wr sge wc peer".split():
    ib = package()

    objects = one_of_each(ib)
    if kind not in objects:
        objects[kind] = None  # of the other package
    kept = objects[kind]
    objects["me"] = objects
    objects["module"] = ib
    del objects, ib
    forget_modules()
    gc.collect()
    repr(kept)
    if hasattr(kept, "close"):
        assert not kept.closed
        if kind == "qp":
            assert kept.send_cq.context.query_port(1).state == 4
        if kind == "cq":
            assert kept.poll(4) == []
        kept.close()
    try:
        if kind == "ctx":
            kept.query_device()
    except OSError as error:
        assert error.errno == 9
    else:
        assert kind != "ctx"
    del kept
    gc.collect()
    assert stub.live_objects() == {}, (kind, stub.live_objects())
