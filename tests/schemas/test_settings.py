"""The settings of a candidate file and the settings of the model are the same, field for field, default for default."""

from __future__ import annotations

from dataclasses import fields

import pytest
from pydantic import BaseModel

from accelmodel import settings as model
from accelmodel.target import Engine, Memory, Target
from schemas import settings as documents
from schemas import target as target_documents


@pytest.mark.parametrize("stage", model.STAGES)
def test_stage_settings_agree(stage: str) -> None:
    theirs = getattr(model.Settings(), stage)
    ours = getattr(documents.StageSettings(), stage)
    assert ours.model_dump() == {field.name: getattr(theirs, field.name) for field in fields(theirs)}


def test_stages_agree_and_stand_in_flow_order() -> None:
    assert tuple(documents.StageSettings.model_fields) == model.STAGES == tuple(f.name for f in fields(model.Settings))


@pytest.mark.parametrize(
    ("document", "vocabulary"),
    [
        (target_documents.Target, Target),
        (target_documents.EngineDocument, Engine),
        (target_documents.MemoryDocument, Memory),
    ],
)
def test_target_document_agrees_with_the_vocabulary(document: type[BaseModel], vocabulary: type) -> None:
    assert tuple(document.model_fields) == tuple(field.name for field in fields(vocabulary))
