"""Workflows that may be asked for, and their settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Path

from mulligan.client import Client
from mulligan.schemas.workflow import WorkflowDefinition
from mulligan.web.answers import Json, gives
from mulligan.web.bodies import SettingsChange
from mulligan.web.catalogue import WorkflowList
from mulligan.web.surroundings import Around

router = APIRouter(prefix="/workflows", tags=["workflows"], default_response_class=Json)

Name = Annotated[str, Path(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]


class WorkflowSettings(msgspec.Struct, kw_only=True):
    """
    The settings that runs asked for now begin with, as a workflow file spells them, and what of
    them was changed here.
    """

    kind: Literal["workflow-settings"] = "workflow-settings"
    workflow: str
    settings: dict[str, Any]
    changed: dict[str, Any]


@router.get("", responses=gives(WorkflowList))
def list_workflows(around: Around) -> Json:
    """The workflows that may be asked for."""
    return Json(around.catalogue.list())


@router.get("/{name}/settings", responses=gives(WorkflowSettings))
def settings(around: Around, name: Name) -> Json:
    """The settings that runs asked for now begin with."""
    return Json(_settings(around.client, around.catalogue.definition(name)))


@router.put("/{name}/settings", responses=gives(WorkflowSettings))
def change_settings(around: Around, name: Name, body: SettingsChange) -> Json:
    """
    Change settings for runs that are asked for from now on; those under way keep theirs. What is
    left out is as the workflow file has it, whatever was changed before.
    """
    definition = around.catalogue.definition(name)
    around.client.change_settings(
        definition, body.model_dump(exclude_unset=True, exclude_none=True)
    )
    return Json(_settings(around.client, definition))


def _settings(client: Client, definition: WorkflowDefinition) -> WorkflowSettings:
    changed = client.changed_settings(definition.name)
    now = definition.with_settings(**changed).settings
    shown = now.model_dump(mode="json", by_alias=True)
    spelled = {_spelling(name): value for name, value in changed.items()}
    return WorkflowSettings(workflow=definition.name, settings=shown, changed=spelled)


def _spelling(name: str) -> str:
    """A setting's name as files and the settings panel spell it."""
    field = SettingsChange.model_fields[name]
    return field.alias or name
