"""Addresses under /v1."""

from django.urls import path, re_path
from drf_spectacular.renderers import OpenApiJsonRenderer2
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.permissions import AllowAny

from hosting.api.administration import AdminLiveView, AdminUsageView
from hosting.api.anthropic import CountTokens, Messages
from hosting.api.batches import Batches, CancelBatch, OneBatch
from hosting.api.chat_completions import ChatCompletions
from hosting.api.completions import Completions
from hosting.api.embeddings import Embeddings
from hosting.api.files import FileContent, Files, OneFile
from hosting.api.message_batches import (
    CancelMessageBatch,
    MessageBatches,
    MessageBatchResults,
    OneMessageBatch,
)
from hosting.api.models import Models, OneModel
from hosting.api.no_view import unknown_address
from hosting.api.rerank import Rerank
from hosting.api.responses import CountInputTokens, Responses

_PUBLIC = {"authentication_classes": [], "permission_classes": [AllowAny]}

urlpatterns = [
    path("admin/usage", AdminUsageView.as_view()),
    path("admin/live", AdminLiveView.as_view()),
    path("chat/completions", ChatCompletions.as_view()),
    path("completions", Completions.as_view()),
    path("responses", Responses.as_view()),
    path("responses/input_tokens", CountInputTokens.as_view()),
    path("messages", Messages.as_view()),
    path("messages/count_tokens", CountTokens.as_view()),
    path("messages/batches", MessageBatches.as_view()),
    path("messages/batches/<str:batch_id>", OneMessageBatch.as_view()),
    path("messages/batches/<str:batch_id>/cancel", CancelMessageBatch.as_view()),
    path("messages/batches/<str:batch_id>/results", MessageBatchResults.as_view()),
    path("embeddings", Embeddings.as_view()),
    path("rerank", Rerank.as_view()),
    path("batches", Batches.as_view()),
    path("batches/<str:batch_id>", OneBatch.as_view()),
    path("batches/<str:batch_id>/cancel", CancelBatch.as_view()),
    path("files", Files.as_view()),
    path("files/<str:file_id>", OneFile.as_view()),
    path("files/<str:file_id>/content", FileContent.as_view()),
    path("models", Models.as_view()),
    path("models/<path:name>", OneModel.as_view()),
    path(
        "openapi.json",
        SpectacularAPIView.as_view(renderer_classes=[OpenApiJsonRenderer2], **_PUBLIC),
        name="openapi",
    ),
    path("docs", SpectacularSwaggerSplitView.as_view(url_name="openapi", **_PUBLIC), name="docs"),
    re_path(r"", unknown_address),
]
