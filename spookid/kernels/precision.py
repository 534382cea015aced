"""How exact numbers are: one threshold for each question, for all algorithms that need no other.

Thresholds lie decades from what they separate, so that their value does not matter; those that do matter are defined
where they are used.
"""

from __future__ import annotations

import math
import sys

TINY = sys.float_info.min
"""What is divided by where a size may be zero."""
HALF_DIGITS = math.sqrt(sys.float_info.epsilon)
"""Share of a number up to which it is rounding, where differences cost half of the digits."""
EPSILON = 8 * sys.float_info.epsilon
"""Share of its terms up to which a short sum is rounded."""
ROUNDING = 1e-12
"""Share of the scale of a number that rounding may contribute to it."""
EQUAL = 1e-9
"""Two computed numbers are equal if they differ by a smaller share of their scale."""
DEPENDENT = 1e-9
"""Singular values, or rows less their projection on others, are zero below this share of the largest."""
NO_INFORMATION = 1e-10
"""Eigenvalues of an information matrix with a unit diagonal are zero below this share of the largest."""
MET = 1e-6
"""Constraints are met if they are off by no more, in their own units or as a share of their terms."""
NEWTON = 60
"""Steps after which Newton's method does not converge."""
HALVINGS = 12
"""Of a step: what does not lessen anything when it is so short never does."""
AT_STEP = 1e-6
"""Share of a time step up to which a time counts as that of a step: timestamps are rounded."""
STEPS_OF_A_CALL = 65536
"""Steps that one call of compiled code evaluates at most, so that Ctrl-C is handled soon."""
