"""What every document shares: strict keys, frozen values, plain words for what went wrong."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints


class Document(BaseModel):
    """A document or a part of one: unknown keys are refused, values are frozen, NaN and infinity are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
"""A name that is also safe as a file name and an HTML anchor."""

Text = Annotated[str, StringConstraints(max_length=2000)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NonNegative = Annotated[float, Field(ge=0.0)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Precision = Annotated[
    str, StringConstraints(pattern=r"^(model|float64|float32|float16|bfloat16|float8_e4m3fn|float8_e5m2|int8|int4)$")
]
