"""Numeric rules at their edges: no elements, and indices that the data push out of a table."""

import numpy as np
import pytest

from accelmodel.errors import InputError
from accelmodel.execute_affine import Axis, Operand
from accelmodel.execute_moves import gather
from accelmodel.execute_rows import ROWS
from accelmodel.graph import Op


@pytest.mark.parametrize(("op_type", "dtype", "value"), [
    ("ReduceMax", np.float32, -np.inf), ("ReduceMin", np.float32, np.inf),
    ("ReduceMax", np.int8, -128), ("ReduceMin", np.int8, 127), ("ReduceSum", np.float32, 0.0),
])  # fmt: skip
def test_of_no_elements_the_largest_is_the_least_value_of_the_type(op_type: str, dtype: type, value: float) -> None:
    (found,) = ROWS[op_type](Op("r", op_type, "", ("x",), ("y",)), (0,), np.zeros((0, 3), dtype))
    assert found.shape == (1, 3) and found.dtype == dtype
    assert (found == value).all()


def test_an_index_beyond_its_table_is_refused_with_what_it_points_at() -> None:
    table = Operand("t", (4,), (Axis((), 0, True, 4),))
    ids = Operand("i", (2,), (Axis(((0, 1),), 0, False, 2),))
    rows = ((((0, 4),), np.arange(4.0)), (((0, 2),), np.array([-4, 3])))
    assert gather((table, ids), rows, ((0, 2),)).tolist() == [0.0, 3.0]
    far = (rows[0], (((0, 2),), np.array([0, 4])))
    with pytest.raises(InputError, match="indices from -4 to 3, found indices from 0 to 4"):
        gather((table, ids), far, ((0, 2),))
