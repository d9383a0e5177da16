# SPDX-License-Identifier: BSD-3-Clause
"""The interpreter ends while objects of every kind are open, in globals, in an order that the argument decides."""

import random
import sys

from common import one_of_each, package

ib = package()

objects = list(one_of_each(ib).items())
random.Random(int(sys.argv[1])).shuffle(objects)
for name, value in objects:
    globals()["kept_" + name] = value
del objects, name, value
