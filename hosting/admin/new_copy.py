"""The page that asks for a quantised copy of a model: in which way, and what each way takes."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from unfold.widgets import UnfoldAdminSelectWidget

from accounts.audit import address_of
from engine.sizing.quantising import AFFINE, Way
from hosting.actions.quantisations import (
    CopyRefused,
    Offer,
    ask_for_copy,
    free_bytes,
    offers_of,
)
from hosting.admin.first_field import FirstField
from hosting.models import HostedModel, Quantisation

VIEW_PERMISSION = "hosting.view_quantisation"


class NewCopyForm(forms.Form):
    name = forms.CharField(
        label="Name of the copy",
        max_length=100,
        help_text="What requests call it. Letters, digits, and . _ : / -",
        widget=FirstField,
    )
    way = forms.ChoiceField(
        label="Bits of a weight, and how many weights share a scale",
        help_text="With what the copy takes on the disk, about. Fewer bits: smaller, and less "
        "exact. Smaller groups: a little more exact, and larger.",
        widget=UnfoldAdminSelectWidget,
    )

    def __init__(self, data: Any, *, model: HostedModel, offers: list[Offer]) -> None:
        super().__init__(data, initial={"way": str(Way())})
        self._model = model
        self._ways = {str(offer.way): offer.way for offer in offers}
        field = self.fields["way"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [
            ("Affine", [_choice(offer) for offer in offers if offer.way.mode == AFFINE]),
            ("Floating point", [_choice(offer) for offer in offers if offer.way.mode != AFFINE]),
        ]

    def ask(self, request: HttpRequest) -> Quantisation | None:
        """None where it is refused, and the form then says why."""
        try:
            return ask_for_copy(
                self._model,
                name=self.cleaned_data["name"],
                way=self._ways[self.cleaned_data["way"]],
                by=request.user,
                address=address_of(request),
            )
        except CopyRefused as refusal:
            self.add_error(refusal.field or "way", str(refusal))
            return None


def new_copy_page(
    model_admin: ModelAdmin[Any], request: HttpRequest, model: HostedModel
) -> HttpResponse:
    try:
        offers = offers_of(model)
    except CopyRefused as refusal:
        messages.error(request, str(refusal))
        return redirect("admin:hosting_hostedmodel_change", model.pk)
    form = NewCopyForm(request.POST or None, model=model, offers=offers)
    if request.method == "POST" and form.is_valid() and (job := form.ask(request)):
        messages.success(request, f"{job.name} is asked for. It is made in the background.")
        if request.user.has_perm(VIEW_PERMISSION):
            return redirect("admin:hosting_quantisation_changelist")
        return redirect("admin:hosting_hostedmodel_change", model.pk)
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "title": f"Quantise {model.name}",
        "model": model,
        "free_bytes": free_bytes(),
        "kept_bytes": settings.MIN_FREE_DISK_BYTES,
        "form": form,
    }
    return TemplateResponse(request, "admin/hosting/new_copy.html", context)


def _choice(offer: Offer) -> tuple[str, str]:
    return str(offer.way), f"{offer.way}: {filesizeformat(offer.num_bytes)}"
