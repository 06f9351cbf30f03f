"""My batches: how far each is, what it wrote, and a button to stop it."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from hosting.actions.batches import cancel_batch, get_batch
from hosting.actions.files import get_readable_file
from hosting.actions.refusals import Refusal
from hosting.api.files import content_response
from hosting.models import Batch, StoredFile

_MOST_SHOWN = 50


@login_required
@require_GET
@never_cache
def my_batches(request: HttpRequest) -> HttpResponse:
    batches = list(Batch.objects.of(request.user.pk)[:_MOST_SHOWN])
    written = {one for batch in batches for one in (batch.output_file, batch.error_file)}
    kept = StoredFile.objects.of(request.user.pk).live().filter(pk__in=written)
    context = {"batches": batches, "kept": {one.public_id for one in kept}}
    return render(request, "batches/mine.html", context)


@login_required
@require_POST
def cancel(request: HttpRequest, batch_id: str) -> HttpResponse:
    try:
        cancel_batch(get_batch(request.user, batch_id))
    except Refusal as refusal:
        if refusal.status == 404:
            raise Http404 from None
        messages.error(request, refusal.message)
    return redirect("my-batches")


@login_required
@require_GET
@never_cache
def download(request: HttpRequest, file_id: str) -> StreamingHttpResponse:
    try:
        return content_response(get_readable_file(request.user, file_id))
    except Refusal:
        raise Http404 from None
