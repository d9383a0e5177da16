# SPDX-License-Identifier: BSD-3-Clause
"""The collector runs at every chance it gets while objects are made, used, tied and dropped."""

import gc
import random

from common import one_of_each, package, stub

ib = package()

rng = random.Random(7)
gc.set_threshold(1, 1, 1)
for _ in range(60):
    objects = one_of_each(ib)
    knot = list(objects.values())
    rng.shuffle(knot)
    knot.append(knot)
    for handle in objects.values():
        gc.get_referents(handle)
        repr(handle)
    if rng.random() < 0.5:
        objects["qp"].close()
        objects["cq"].close()
    del objects, knot
    handle = None
gc.set_threshold(700, 10, 10)
gc.collect()
assert stub.live_objects() == {}, stub.live_objects()
assert stub.violations == 0
