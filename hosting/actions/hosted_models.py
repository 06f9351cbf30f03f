"""Changes to the registry of models, and telling the engines of it."""

from __future__ import annotations

import logging
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction

from accounts import audit
from accounts.limits import allowance_of
from accounts.models import AuditRecord, User
from engine import wire
from hosting.actions.background import enqueue
from hosting.actions.fetched_folders import part_of, publish_part
from hosting.actions.forgetting import forget
from hosting.actions.memory_limits import memory_limits
from hosting.actions.model_folder import FolderDescription, NotAModelFolder, describe_folder
from hosting.actions.publications import unpublish
from hosting.engine_client import EngineUnavailable, get_client
from hosting.models import HostedModel
from hosting.models.hosted_model import HostedModelQuerySet

DEMO_MODEL_NAME = "hearth-demo"
_REPO_ID = re.compile(r"\A[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")
_CANCELLED = (
    "The download was cancelled, and what was here of it deleted. Fetch it again to begin anew."
)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")

logger = logging.getLogger(__name__)


class ModelRefused(Exception):
    """This model cannot be registered."""


class NameTaken(ModelRefused):
    """There is a model of this name."""


def add_model(
    source: str, *, name: str = "", is_default: bool = False, is_new: bool = False
) -> HostedModel:
    """Register a local folder, or a Hugging Face id that is then fetched. Raises ModelRefused.

    A folder is looked for first. The same name again points the registration to the new source,
    or is refused where the model `is_new`.
    """
    try:
        description = describe_folder(Path(source))
    except NotAModelFolder as error:
        if os.path.exists(source) or not _REPO_ID.match(source):
            raise ModelRefused(str(error)) from error
        return _add_repository(source, name=name, is_default=is_default, is_new=is_new)
    return _add_folder(description, name=name, is_default=is_default, is_new=is_new)


def ensure_demo_model() -> HostedModel | None:
    """Register the built-in model where there never was one; None also where its weights lack."""
    try:
        description = describe_folder(Path(settings.DEMO_MODEL_DIR))
    except NotAModelFolder as error:
        logger.warning("demo model absent: %s", error)
        return None
    known = HostedModel.objects.filter(name=DEMO_MODEL_NAME).first()
    if known is not None and known.path == description.path:
        return known
    if known is None and _had_models():
        return None
    is_default = not HostedModel.objects.filter(is_default=True).exists()
    return _add_folder(
        description, name=DEMO_MODEL_NAME, display_name="Hearth demo", is_default=is_default
    )


def _had_models() -> bool:
    deleted = AuditRecord.objects.filter(action="model.delete")
    return HostedModel.objects.exists() or deleted.exists()


def default_model_name() -> str:
    """What an example names: the default model, else any that can be served, else the demo."""
    names = HostedModel.objects.answering().values_list("name", flat=True)
    return names.order_by("-is_default", "name").first() or DEMO_MODEL_NAME


def model_names() -> list[str]:
    """Of all, served or not."""
    return list(HostedModel.objects.order_by("name").values_list("name", flat=True))


def names_for(user: User) -> list[str]:
    """Of the models that this person may use, the default one first."""
    limits = allowance_of(user).effective
    names = HostedModel.objects.servable().open_to(user).values_list("name", flat=True)
    return [name for name in names if limits.may_use(name)]


def make_default(model: HostedModel) -> None:
    """At most one model is the default: the database holds it."""
    with transaction.atomic():
        HostedModel.objects.filter(is_default=True).exclude(pk=model.pk).update(is_default=False)
        HostedModel.objects.filter(pk=model.pk).update(is_default=True)
    model.is_default = True


def set_pinned(model: HostedModel, *, is_pinned: bool) -> None:
    """Whether it is kept in memory whatever else is wanted."""
    with transaction.atomic():
        HostedModel.objects.filter(pk=model.pk).update(is_pinned=is_pinned)
        publish_on_commit()


def remove_model(model: HostedModel) -> None:
    """Forget the registration, and what engines keep of its prompts; the weights on disk stay."""
    with transaction.atomic():
        for prompt in model.published_prompts.all():
            unpublish(prompt)
        model.delete()
        forget(model_name=model.name)
        publish_on_commit()


def publish_on_commit() -> None:
    transaction.on_commit(publish_models)


def publish_models() -> None:
    """Tell the engines what to serve. With Redis away the ledger consumer does it later."""
    try:
        get_client().publish_models(_servable(), memory_limits=memory_limits())
    except EngineUnavailable:
        logger.warning("models not published: Redis is away")


def publish_missed_models() -> bool:
    """What was changed while Redis was away. Whether it knew of no models at all. Raises
    EngineUnavailable."""
    # Asked before the rows are read: who changes them publishes afterwards
    known = get_client().published_models()
    if known != wire.Configure(models=_servable(), memory_limits=memory_limits()):
        publish_models()
    return known is None


def _servable() -> tuple[wire.ModelSpec, ...]:
    return tuple(
        spec_of(model) for model in HostedModel.objects.servable().select_related("draft_model")
    )


def spec_of(model: HostedModel) -> wire.ModelSpec:
    is_shared = model.cache_sharing == HostedModel.CacheSharing.SHARED
    return wire.ModelSpec(
        name=model.name,
        path=model.path,
        kind=wire.ModelKind(model.kind),
        context_limit_tokens=model.context_limit_tokens,
        max_rows=model.max_rows,
        max_queue=model.max_queue,
        is_pinned=model.is_pinned,
        idle_unload_seconds=model.idle_unload_seconds,
        stall_ms=model.pace_numbers.stall_ms,
        decode_share=model.pace_numbers.decode_share,
        share_after=wire.SHARE_AFTER if is_shared else None,
        cache_memory_share=model.cache_memory_share,
        cache_disk_share=model.cache_disk_share,
        is_cached_on_disk=model.is_cached_on_disk,
        boundary_interval_tokens=model.boundary_interval_tokens,
        most_slice_tokens=model.slice_tokens,
        memory_ceiling_bytes=model.memory_ceiling_bytes,
        memory_share=model.memory_share,
        kv_bits=model.kv_bits,
        draft_tokens=model.draft_tokens,
        draft_path=_draft_path(model),
        clears_buffers=model.buffers == HostedModel.Buffers.CLEAR,
    )


def _draft_path(model: HostedModel) -> str | None:
    """What makes no answers has none drafted, whatever was chosen when it did."""
    makes_answers = model.kind == HostedModel.Kind.GENERATE
    return model.draft_model.path if model.draft_model and makes_answers else None


def fetched_folder(model: HostedModel) -> Path:
    """Where the weights of a model from Hugging Face are kept."""
    return Path(settings.MODELS_DIR).resolve() / model.repo_id.replace("/", "--")


def follow_data_folder() -> None:
    """It may have been moved, or restored elsewhere, and the models that lie in it with it."""
    here = HostedModel.objects.exclude(source=HostedModel.Source.LOCAL)
    for model in here.filter(state=HostedModel.State.READY):
        folder = Path(settings.MODELS_DIR).resolve() / Path(model.path).name
        if folder.is_dir():
            HostedModel.objects.filter(pk=model.pk).update(path=str(folder))


def mark_fetched(model: HostedModel) -> None:
    """All of it is here: put it in its place, describe and serve it. Nothing happens where the
    fetch was cancelled. Raises NotAModelFolder."""
    folder = fetched_folder(model)
    fields = _fields_of(describe_folder(part_of(folder))) | {"path": str(folder)}
    with transaction.atomic():
        if _end_fetch(model, HostedModel.State.READY, **fields, fetch_fraction=1.0):
            publish_part(folder)
            publish_on_commit()


def mark_fetch_failed(model: HostedModel, reason: str) -> None:
    _end_fetch(model, HostedModel.State.FAILED, detail=reason)


def cancel_fetch(model: HostedModel, *, by: User | None, address: str = "") -> bool:
    """False where it has ended. Weights that were here before are served again. Whoever fetches it
    sees that within half a second, and deletes what it has fetched."""
    was_here = model.path == str(fetched_folder(model))
    with transaction.atomic():
        if was_here:
            is_cancelled = _end_fetch(model, HostedModel.State.READY, fetch_fraction=1.0)
        else:
            state = HostedModel.State.CANCELLED
            is_cancelled = _end_fetch(model, state, detail=_CANCELLED, fetch_fraction=0.0)
        if is_cancelled:
            audit.record("model.fetch_cancel", actor=by, address=address, target=model)
            publish_on_commit()
            transaction.on_commit(partial(enqueue, "look_at_fetches"))
    return is_cancelled


def note_fetch_progress(model: HostedModel, fraction: float) -> bool:
    """False where it is wanted no more."""
    return bool(_fetch_of(model).update(fetch_fraction=fraction))


def fetch_again(model: HostedModel) -> None:
    """What failed or was cancelled, or what has changed. Only for models from Hugging Face."""
    with transaction.atomic():
        HostedModel.objects.filter(pk=model.pk).update(
            state=HostedModel.State.FETCHING, detail="", fetch_fraction=0
        )
        transaction.on_commit(lambda: enqueue_fetch(model))


def _end_fetch(
    model: HostedModel, state: HostedModel.State, *, detail: str = "", **fields: Any
) -> bool:
    """Whether it was going on until now."""
    return bool(_fetch_of(model).update(state=state, detail=detail, **fields))


def _fetch_of(model: HostedModel) -> HostedModelQuerySet:
    """Not where the name was given to another repository meanwhile."""
    return HostedModel.objects.fetching().filter(pk=model.pk, repo_id=model.repo_id)


def _add_folder(
    description: FolderDescription,
    *,
    name: str,
    display_name: str = "",
    is_default: bool,
    is_new: bool = False,
) -> HostedModel:
    name = name or _name_from(Path(description.path).name)
    return register(
        name,
        is_default=is_default,
        is_new=is_new,
        display_name=display_name or name,
        source=HostedModel.Source.LOCAL,
        state=HostedModel.State.READY,
        detail="",
        fetch_fraction=1.0,
        **_fields_of(description),
    )


def _add_repository(repo_id: str, *, name: str, is_default: bool, is_new: bool) -> HostedModel:
    name = name or _name_from(repo_id.split("/")[1])
    with transaction.atomic():
        model = register(
            name,
            is_default=is_default,
            is_new=is_new,
            display_name=name,
            source=HostedModel.Source.HUGGING_FACE,
            repo_id=repo_id,
            state=HostedModel.State.FETCHING,
            detail="",
            fetch_fraction=0.0,
        )
        transaction.on_commit(lambda: enqueue_fetch(model))
    return model


def register(name: str, *, is_default: bool = False, is_new: bool, **fields: Any) -> HostedModel:
    """Raises ModelRefused."""
    with transaction.atomic():
        model = HostedModel.objects.filter(name=name).first() or HostedModel(name=name)
        if is_new and model.pk:
            raise NameTaken(f"There is a model of this name: {name}.")
        for field, value in fields.items():
            setattr(model, field, value)
        try:
            model.full_clean()
        except ValidationError as error:
            raise ModelRefused("; ".join(error.messages)) from error
        model.save()
        if is_default:
            make_default(model)
        publish_on_commit()
    return model


def enqueue_fetch(model: HostedModel) -> None:
    if not enqueue("fetch_model", model.pk):
        mark_fetch_failed(model, "Redis was away when the download was to start. Try again.")


def _fields_of(description: FolderDescription) -> dict[str, Any]:
    return {
        "path": description.path,
        "kind": description.kind,
        "weight_bytes": description.weight_bytes,
        "context_limit_tokens": description.context_limit_tokens,
        "supports_thinking": description.supports_thinking,
        "supports_tools": description.supports_tools,
        "supports_images": description.supports_images,
        **{f"default_{name}": value for name, value in description.sampling.items()},
    }


def _name_from(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text).strip("-._").lower() or "model"
