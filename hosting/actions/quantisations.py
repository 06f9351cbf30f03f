"""Quantised copies of models: asked for, cancelled, and registered when they are written.

They are made in the background, one at a time (quantising.py).
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Sum
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from accounts import audit
from accounts.models import User
from engine.sizing.quantising import WAYS, Way, copy_bytes, is_quantised
from engine.sizing.tensors import tensors_of
from hosting.actions.background import enqueue
from hosting.actions.hosted_models import publish_on_commit, register
from hosting.actions.model_folder import describe_folder
from hosting.models import HostedModel, Quantisation

_State = Quantisation.State
_INHERITED = (
    *("kind", "context_limit_tokens", "supports_thinking", "supports_tools", "template_options"),
    *("default_temperature", "default_top_p", "default_top_k", "default_min_p"),
    *("default_presence_penalty", "default_frequency_penalty", "default_repetition_penalty"),
    *("default_max_tokens", "cache_sharing", "is_cached_on_disk"),
)


class CopyRefused(Exception):
    """No such copy can be made. `field` is the one at fault, None where it is the model."""

    def __init__(self, reason: str, *, field: str | None = None) -> None:
        super().__init__(reason)
        self.field = field


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A way that some layers of the model can take, and about what the copy takes on the disk."""

    way: Way
    num_bytes: int


def offers_of(model: HostedModel) -> list[Offer]:
    """Raises CopyRefused where there is none."""
    if model.state != HostedModel.State.READY:
        raise CopyRefused(f"{model.name} is not on the disk: it is {model.get_state_display()}.")
    if model.kind != HostedModel.Kind.GENERATE:
        raise CopyRefused(
            f"{model.name} makes {model.get_kind_display()}: only models that answer "
            "can be quantised."
        )
    folder = Path(model.path)
    try:
        config = dict(json.loads((folder / "config.json").read_text("utf-8")))
        tensors = tensors_of(folder)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CopyRefused(f"The files of {model.name} cannot be read: {error}.") from error
    if is_quantised(config, tensors):
        raise CopyRefused(f"{model.name} is quantised already: copies are made of full precision.")
    sizes = [(way, copy_bytes(config, tensors, way)) for way in WAYS]
    offers = [Offer(way=way, num_bytes=size) for way, size in sizes if size is not None]
    if not offers:
        raise CopyRefused(f"No layer of {model.name} can be quantised.")
    return offers


def ask_for_copy(
    model: HostedModel, *, name: str, way: Way, by: User | None, address: str = ""
) -> Quantisation:
    """Raises CopyRefused. `by` None: who has the machine."""
    num_bytes = _size_of(model, way)
    job = Quantisation(
        source=model, source_name=model.name, name=name, estimated_bytes=num_bytes, **_fields(way)
    )
    if HostedModel.objects.filter(name=name).exists():
        raise CopyRefused(f"There is a model of this name: {name}.", field="name")
    check_room(job)
    try:
        job.full_clean()
        with transaction.atomic():
            job.save()
            told = {"copy": name, "way": str(way), "estimated_bytes": num_bytes}
            audit.record("model.quantise", actor=by, address=address, target=model, after=told)
            transaction.on_commit(partial(enqueue, "run_quantisations"))
    except ValidationError as error:
        raise CopyRefused(" ".join(error.messages), field="name") from error
    except IntegrityError as error:  # somebody else has asked in the same moment
        raise CopyRefused("A copy of this name is being made.", field="name") from error
    return job


def cancel_copy(job: Quantisation, *, by: User | None, address: str = "") -> bool:
    """False where it has ended. Whoever runs it sees that within half a second."""
    with transaction.atomic():
        if not end(job, _State.CANCELLED):
            return False
        audit.record("model.quantise_cancel", actor=by, address=address, target=job)
    return True


def check_room(job: Quantisation) -> None:
    """Raises CopyRefused where the disk would be left less than it must have, with what is still
    to be written for others."""
    others = Quantisation.objects.open().exclude(name=job.name).aggregate(Sum("estimated_bytes"))
    free = max(0, free_bytes() - (others["estimated_bytes__sum"] or 0))
    if free - job.estimated_bytes < settings.MIN_FREE_DISK_BYTES:
        raise CopyRefused(
            f"The disk has too little room: the copy takes about "
            f"{filesizeformat(job.estimated_bytes)}, {filesizeformat(free)} are free, and "
            f"{filesizeformat(settings.MIN_FREE_DISK_BYTES)} must stay free."
        )


def free_bytes() -> int:
    folder = Path(settings.MODELS_DIR)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return shutil.disk_usage(folder).free


def way_of(job: Quantisation) -> Way:
    return Way(mode=job.mode, bits=job.bits, group_size=job.group_size)


def end(job: Quantisation, state: Quantisation.State, *, detail: str = "") -> bool:
    """Whether it was open until now."""
    found = Quantisation.objects.open().filter(pk=job.pk)
    return bool(found.update(state=state, detail=detail, ended_at=timezone.now()))


def begin(job: Quantisation) -> bool:
    """False where it is not open any more."""
    found = Quantisation.objects.open().filter(pk=job.pk)
    return bool(found.update(state=_State.RUNNING, fraction=0))


def note_progress(job: Quantisation, fraction: float) -> bool:
    """False where it is wanted no more."""
    found = Quantisation.objects.filter(pk=job.pk, state=_State.RUNNING)
    return bool(found.update(fraction=fraction))


def note_death(job: Quantisation) -> None:
    job.num_deaths += 1
    Quantisation.objects.filter(pk=job.pk).update(num_deaths=job.num_deaths)


def publish_copy(job: Quantisation, folder: Path) -> None:
    """A model that is served from now on, to those whom its source is open to. Nothing happens
    where the copy was cancelled. Raises ModelRefused, NotAModelFolder or CopyRefused."""
    written = describe_folder(folder)
    with transaction.atomic():
        if not end(job, _State.DONE):
            return
        job.refresh_from_db(fields=["source"])
        source = job.source
        if source is None:
            raise CopyRefused(f"{job.source_name} was removed meanwhile.")
        model = register(
            job.name,
            is_new=True,
            display_name=job.name,
            source=HostedModel.Source.QUANTISED,
            path=written.path,
            weight_bytes=written.weight_bytes,
            supports_images=written.supports_images,
            fetch_fraction=1.0,
            **{name: getattr(source, name) for name in _INHERITED},
        )
        model.allowed_groups.set(source.allowed_groups.all())
        told = {"copy_of": source.name, "way": str(way_of(job))}
        audit.record("model.add", actor=None, target=model, after=told)
        publish_on_commit()


def _size_of(model: HostedModel, way: Way) -> int:
    offers = {offer.way: offer.num_bytes for offer in offers_of(model)}
    if way in offers:
        return offers[way]
    if way not in WAYS:
        raise CopyRefused(f"There is no such way: {way}.", field="way")
    raise CopyRefused(
        f"No layer of {model.name} can be quantised in groups of {way.group_size}: none has rows "
        "of such a length.",
        field="way",
    )


def _fields(way: Way) -> dict[str, Any]:
    return {"mode": way.mode, "bits": way.bits, "group_size": way.group_size}
