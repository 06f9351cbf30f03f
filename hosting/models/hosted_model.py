"""The registry of models: where the weights lie. Who has them loaded it does not know."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q

from accounts.models import User
from accounts.prepared import Given
from engine import wire
from hosting.models.pace import PRESETS, Pace, PaceNumbers

GIB = 1024**3
_MOST = {"max_rows": 4096, "memory_ceiling_gb": 1_000_000}
NAME_PATTERN = r"\A[A-Za-z0-9][A-Za-z0-9._:/-]*\Z"


def check_template_options(options: object) -> None:
    if not isinstance(options, dict):
        raise ValidationError('This must be an object like {"enable_thinking": false}.')
    for name in options:
        if not wire.is_template_option(name):
            raise ValidationError(f"{name[:40]!r} is no template option.")


class HostedModelQuerySet(models.QuerySet["HostedModel"]):
    def servable(self) -> HostedModelQuerySet:
        """What requests may name and engines may load."""
        return self.filter(is_enabled=True, state=HostedModel.State.READY)

    def open_to(self, user: User | Given) -> HostedModelQuerySet:
        """Those that everybody may use, and those of this person's groups."""
        of_groups = self.model.objects.exclude(allowed_groups=None)
        of_their_groups = self.model.objects.filter(allowed_groups__user=user)
        return self.filter(
            ~Q(pk__in=of_groups.values("pk")) | Q(pk__in=of_their_groups.values("pk"))
        )

    def answering(self) -> HostedModelQuerySet:
        """Of the servable ones, those to talk to."""
        return self.servable().filter(kind=HostedModel.Kind.GENERATE)

    def enabled(self) -> HostedModelQuerySet:
        """Those that people hear of: also what is being fetched, or could not be."""
        return self.filter(is_enabled=True).exclude(state=HostedModel.State.CANCELLED)

    def fetching(self) -> HostedModelQuerySet:
        """From Hugging Face, at this moment or soon."""
        return self.filter(state=HostedModel.State.FETCHING)

    def unfetched(self) -> HostedModelQuerySet:
        """Those of which a part may be on the disk: what failed keeps its complete files."""
        return self.filter(state__in=[HostedModel.State.FETCHING, HostedModel.State.FAILED])

    def folders(self) -> list[str]:
        """Where their weights are; what is still to be fetched has none."""
        return [model.path for model in self if model.path]


class HostedModel(models.Model):
    """One servable model. Limits and sampling defaults are None where the model's own are used."""

    class Source(models.TextChoices):
        LOCAL = "local", "a folder of this machine"
        HUGGING_FACE = "hugging_face", "Hugging Face"
        QUANTISED = "quantised", "a quantised copy made here"

    class Kind(models.TextChoices):
        GENERATE = "generate", "answers"
        EMBED = "embed", "embeddings"
        RERANK = "rerank", "reranking"

    class State(models.TextChoices):
        READY = "ready"
        FETCHING = "fetching"
        FAILED = "failed"
        CANCELLED = "cancelled"

    class CacheSharing(models.TextChoices):
        SHARED = "shared", "their own, and what three people sent independently"
        TEAM = "team", "their own, and those of their groups"
        OWN = "own", "their own only"

    class Buffers(models.TextChoices):
        KEEP = "keep", "keep them for what comes next"
        CLEAR = "clear", "give them back after every piece of a prompt"

    class KvBits(models.IntegerChoices):
        EIGHT = 8, "8 bits"
        FOUR = 4, "4 bits"

    name = models.CharField(
        max_length=100,
        unique=True,
        validators=[RegexValidator(NAME_PATTERN)],
        help_text="What requests call it: letters, digits, and . _ : / -",
    )
    display_name = models.CharField(max_length=200, blank=True)
    path = models.CharField(max_length=1000, blank=True, help_text="The folder of the weights.")
    kind = models.CharField("makes", max_length=20, choices=Kind, default=Kind.GENERATE)
    source = models.CharField(max_length=20, choices=Source, default=Source.LOCAL)
    repo_id = models.CharField("Hugging Face id", max_length=200, blank=True)
    state = models.CharField(max_length=20, choices=State, default=State.READY)
    detail = models.TextField(blank=True, help_text="Why it failed, or what is being done.")
    fetch_fraction = models.FloatField("fetched", default=0)
    is_default = models.BooleanField("default", default=False)
    is_enabled = models.BooleanField("enabled", default=True)
    weight_bytes = models.BigIntegerField(default=0)
    context_limit_tokens = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)]
    )
    supports_thinking = models.BooleanField(default=False)
    supports_tools = models.BooleanField(default=False)
    supports_images = models.BooleanField(default=False)

    default_temperature = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0), MaxValueValidator(2)]
    )
    default_top_p = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0.001), MaxValueValidator(1)]
    )
    default_top_k = models.PositiveIntegerField(null=True, blank=True)
    default_min_p = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0), MaxValueValidator(1)]
    )
    default_presence_penalty = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(-2), MaxValueValidator(2)]
    )
    default_frequency_penalty = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(-2), MaxValueValidator(2)]
    )
    default_repetition_penalty = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0.01), MaxValueValidator(10)]
    )
    default_max_tokens = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)]
    )
    template_options = models.JSONField(
        default=dict,
        blank=True,
        validators=[check_template_options],
        help_text="For the chat template, where a request says nothing of them. "
        'Example: {"enable_thinking": false}.',
    )
    # What the chat template makes of the shortest conversation, as intake has counted it
    template_tokens = models.PositiveIntegerField(default=0, editable=False)
    allowed_groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="hosted_models",
        help_text="Only their people may use the model. None chosen: everybody.",
    )

    max_rows = models.PositiveIntegerField(
        default=16,
        validators=[MinValueValidator(1)],
        help_text="Answers computed at once. Who has none gets one more while another has several.",
    )
    max_queue = models.PositiveIntegerField(
        default=256,
        validators=[MinValueValidator(1)],
        help_text="Waiting requests, of all people.",
    )
    memory_ceiling_gb = models.FloatField(
        "memory ceiling (GB)",
        null=True,
        blank=True,
        validators=[MinValueValidator(0.01)],
        help_text="Of weights and running requests together. Empty: the engine's limit.",
    )
    memory_share = models.FloatField(
        "share of the memory limit",
        null=True,
        blank=True,
        validators=[MinValueValidator(0.01), MaxValueValidator(1)],
        help_text="The ceiling as a part of the limit, 0.01 to 1. With both the lower counts.",
    )
    slice_tokens = models.PositiveIntegerField(
        "longest piece of a prompt",
        default=2048,
        validators=[MinValueValidator(32), MaxValueValidator(8192)],
        help_text="Tokens computed in one step. Less: less working memory, slower long prompts.",
    )
    buffers = models.CharField(
        "unused buffers",
        max_length=8,
        choices=Buffers,
        default=Buffers.KEEP,
        help_text="Keeping is faster; giving back leaves more to other programs.",
    )
    kv_bits = models.PositiveSmallIntegerField(
        "KV cache",
        choices=KvBits,
        null=True,
        blank=True,
        help_text="Keys and values of requests, quantised: less memory for each, but attention "
        "takes longer, and answers are not quite those of the model as computed.",
    )
    draft_tokens = models.PositiveSmallIntegerField(
        "tokens drafted at most",
        default=0,
        validators=[MaxValueValidator(wire.MOST_DRAFT_TOKENS)],
        help_text="Of an answer that is computed alone, verified in one step: the same words, "
        "sooner, where they are foreseeable, as in edits of code. As many as pay are drafted, up "
        "to this; 8 is usual, 0 none. Not for models with windowed layers.",
    )
    draft_model = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="drafts_for",
        help_text="A much smaller model of the same family, loaded with this one. None: what was "
        "read or written before is all that is drafted from.",
    )
    is_pinned = models.BooleanField("pinned", default=False, help_text="Never unloaded.")
    idle_unload_seconds = models.PositiveIntegerField(null=True, blank=True)
    pace = models.CharField(
        max_length=20,
        choices=Pace,
        default=Pace.BALANCED,
        help_text="Who comes first when prompts and running answers want the device.",
    )
    stall_ms = models.PositiveIntegerField(
        "longest pause (ms)",
        default=PRESETS[Pace.BALANCED].stall_ms,
        validators=[MinValueValidator(1)],
        help_text="Of running answers, for somebody's prompt. Counts with the custom pace only.",
    )
    decode_share = models.FloatField(
        "share of running answers",
        default=PRESETS[Pace.BALANCED].decode_share,
        validators=[MinValueValidator(0), MaxValueValidator(1)],
        help_text="Of the time, while prompts wait. Counts with the custom pace only.",
    )
    cache_sharing = models.CharField(
        max_length=20,
        choices=CacheSharing,
        default=CacheSharing.SHARED,
        help_text="Whose computed prefixes a person's prompts may use.",
    )
    cache_memory_share = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0), MaxValueValidator(1)],
        help_text="Most of the memory tier's budget that this model may fill, 0 to 1.",
    )
    cache_disk_share = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.01), MaxValueValidator(1)],
        help_text="Most of the disk tier's budget that this model may fill, 0.01 to 1. Less than "
        "it has: the oldest leave within minutes.",
    )
    is_cached_on_disk = models.BooleanField("cached on disk", default=True)
    boundary_interval_tokens = models.PositiveIntegerField(
        default=2048,
        validators=[MinValueValidator(256)],
        help_text="How often the state of windowed and recurrent layers is copied while a prompt "
        "is read. Less: more of it is reused, and more memory taken.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = HostedModelQuerySet.as_manager()

    class Meta:
        ordering = ["-is_default", "name"]
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=Q(is_default=True), name="one_default_model"
            )
        ]

    def __str__(self) -> str:
        return self.display_name or self.name

    def clean(self) -> None:
        """Refuses what no machine has, before anybody computes with it."""
        over = [name for name, most in _MOST.items() if (getattr(self, name) or 0) > most]
        if over:
            raise ValidationError({name: f"At most {_MOST[name]:,}." for name in over})

    @property
    def memory_ceiling_bytes(self) -> int | None:
        gigabytes = self.memory_ceiling_gb
        return None if gigabytes is None else int(gigabytes * GIB)

    @property
    def pace_numbers(self) -> PaceNumbers:
        """The numbers in force: the preset's, or the model's own."""
        own = PaceNumbers(stall_ms=self.stall_ms, decode_share=self.decode_share)
        return PRESETS.get(Pace(self.pace), own)
