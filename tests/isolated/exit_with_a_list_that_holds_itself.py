# SPDX-License-Identifier: BSD-3-Clause
"""The interpreter ends while a list that holds itself holds objects: they go after the module's state."""

import random
import sys

from common import one_of_each, package

ib = package()

knot = list(one_of_each(ib).values())
random.Random(int(sys.argv[1])).shuffle(knot)
knot.append(knot)
if int(sys.argv[1]) % 2:
    knot.append(ib)
    knot.append(sys.modules[__name__])
