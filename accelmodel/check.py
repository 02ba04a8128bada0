"""Independent checkers: do a grouping, a placement, a plan and a timeline keep their promises?

They share no code with what made these, and work the plain way: sets, loops, arithmetic from the definitions. Each
returns a tuple of problems, one sentence each, empty where all is well.
"""

from __future__ import annotations

from accelmodel.check_grouping import check_grouping
from accelmodel.check_placement import check_placement
from accelmodel.check_plan import check_plan
from accelmodel.check_timeline import check_timeline

__all__ = ["check_grouping", "check_placement", "check_plan", "check_timeline"]
