"""An op that is lowered is computed too: none gets a cost and is then left out of the numeric check by oversight."""

from accelmodel.execute_tile import NUMERIC
from accelmodel.lower import RULES

# Always views: they move no data, so there is nothing to compute.
VIEWS = {"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
WITHOUT_NUMERICS: set[str] = set()
"""Op types with a lowering rule whose values cannot be computed yet; models that hold one are not executed."""


def test_every_op_type_with_a_lowering_rule_has_numerics_or_is_listed() -> None:
    assert set(RULES) - NUMERIC - VIEWS == WITHOUT_NUMERICS


def test_every_op_type_with_numerics_has_a_lowering_rule() -> None:
    assert set() == NUMERIC - set(RULES)
