"""Shapes of the answers, for the API's description only."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class ErrorBody(serializers.Serializer[Any]):
    message = serializers.CharField()
    type = serializers.CharField()
    param = serializers.CharField(allow_null=True)
    code = serializers.CharField()


class Error(serializers.Serializer[Any]):
    error = ErrorBody()


class AnswerMessage(serializers.Serializer[Any]):
    role = serializers.CharField()
    content = serializers.CharField(allow_null=True)
    refusal = serializers.CharField(allow_null=True)
    reasoning_content = serializers.CharField(required=False)
    tool_calls = serializers.ListField(child=serializers.DictField(), required=False)


class Choice(serializers.Serializer[Any]):
    index = serializers.IntegerField()
    message = AnswerMessage()
    logprobs = serializers.DictField(allow_null=True)
    finish_reason = serializers.CharField()


class ChatCompletion(serializers.Serializer[Any]):
    id = serializers.CharField()
    object = serializers.CharField()
    created = serializers.IntegerField()
    model = serializers.CharField()
    choices = Choice(many=True)
    usage = serializers.DictField()


class ResponseObject(serializers.Serializer[Any]):
    id = serializers.CharField()
    object = serializers.CharField()
    created_at = serializers.IntegerField()
    completed_at = serializers.IntegerField(allow_null=True)
    status = serializers.CharField()
    error = serializers.DictField(allow_null=True)
    incomplete_details = serializers.DictField(allow_null=True)
    model = serializers.CharField()
    output = serializers.ListField(child=serializers.DictField())
    usage = serializers.DictField(allow_null=True)


class TextChoice(serializers.Serializer[Any]):
    index = serializers.IntegerField()
    text = serializers.CharField()
    logprobs = serializers.DictField(allow_null=True)
    finish_reason = serializers.CharField()


class Completion(serializers.Serializer[Any]):
    id = serializers.CharField()
    object = serializers.CharField()
    created = serializers.IntegerField()
    model = serializers.CharField()
    choices = TextChoice(many=True)
    usage = serializers.DictField()


class AnthropicErrorBody(serializers.Serializer[Any]):
    type = serializers.CharField()
    message = serializers.CharField()


class AnthropicError(serializers.Serializer[Any]):
    type = serializers.CharField()
    error = AnthropicErrorBody()
    request_id = serializers.CharField()


class AnthropicMessage(serializers.Serializer[Any]):
    id = serializers.CharField()
    type = serializers.CharField()
    role = serializers.CharField()
    model = serializers.CharField()
    content = serializers.ListField(child=serializers.DictField())
    stop_reason = serializers.CharField(allow_null=True)
    stop_sequence = serializers.CharField(allow_null=True)
    usage = serializers.DictField()


class TokenCount(serializers.Serializer[Any]):
    input_tokens = serializers.IntegerField()


class InputTokens(TokenCount):
    object = serializers.CharField()


class Embedding(serializers.Serializer[Any]):
    object = serializers.CharField()
    index = serializers.IntegerField()
    embedding = serializers.ListField(child=serializers.FloatField())


class EmbeddingList(serializers.Serializer[Any]):
    object = serializers.CharField()
    data = Embedding(many=True)
    model = serializers.CharField()
    usage = serializers.DictField()


class Ranked(serializers.Serializer[Any]):
    index = serializers.IntegerField()
    relevance_score = serializers.FloatField()
    document = serializers.DictField(required=False)


class Ranking(serializers.Serializer[Any]):
    id = serializers.CharField()
    model = serializers.CharField()
    results = Ranked(many=True)
    meta = serializers.DictField()
    usage = serializers.DictField()


class Model(serializers.Serializer[Any]):
    id = serializers.CharField()
    object = serializers.CharField()
    created = serializers.IntegerField()
    owned_by = serializers.CharField()
    kind = serializers.ChoiceField(choices=("generate", "embed", "rerank"))
    input_modalities = serializers.ListField(child=serializers.CharField())
    context_length = serializers.IntegerField(allow_null=True)
    max_model_len = serializers.IntegerField(allow_null=True)


class ModelList(serializers.Serializer[Any]):
    object = serializers.CharField()
    data = Model(many=True)


class AdminUsage(serializers.Serializer[Any]):
    object = serializers.CharField()
    window = serializers.CharField()
    total = serializers.DictField()
    people = serializers.ListField(child=serializers.DictField())
    models = serializers.ListField(child=serializers.DictField())
    keys = serializers.ListField(child=serializers.DictField())


class AdminLive(serializers.Serializer[Any]):
    object = serializers.CharField()
    notice = serializers.CharField()
    engines = serializers.ListField(child=serializers.DictField())
    requests = serializers.ListField(child=serializers.DictField())
    num_running = serializers.IntegerField()
    num_waiting = serializers.IntegerField()


class FileObject(serializers.Serializer[Any]):
    id = serializers.CharField()
    object = serializers.CharField()
    bytes = serializers.IntegerField()
    created_at = serializers.IntegerField()
    expires_at = serializers.IntegerField()
    filename = serializers.CharField()
    purpose = serializers.CharField()
    status = serializers.CharField()
    status_details = serializers.CharField(allow_null=True)


class ListPage(serializers.Serializer[Any]):
    object = serializers.CharField()
    first_id = serializers.CharField(allow_null=True)
    last_id = serializers.CharField(allow_null=True)
    has_more = serializers.BooleanField()


class FileList(ListPage):
    data = FileObject(many=True)


class DeletedFile(serializers.Serializer[Any]):
    id = serializers.CharField()
    object = serializers.CharField()
    deleted = serializers.BooleanField()


class BatchObject(serializers.Serializer[Any]):
    id = serializers.CharField()
    object = serializers.CharField()
    endpoint = serializers.CharField()
    model = serializers.CharField(allow_null=True)
    errors = serializers.DictField(allow_null=True)
    input_file_id = serializers.CharField()
    completion_window = serializers.CharField()
    status = serializers.CharField()
    output_file_id = serializers.CharField(allow_null=True)
    error_file_id = serializers.CharField(allow_null=True)
    created_at = serializers.IntegerField()
    in_progress_at = serializers.IntegerField(allow_null=True)
    expires_at = serializers.IntegerField()
    finalizing_at = serializers.IntegerField(allow_null=True)
    completed_at = serializers.IntegerField(allow_null=True)
    failed_at = serializers.IntegerField(allow_null=True)
    expired_at = serializers.IntegerField(allow_null=True)
    cancelling_at = serializers.IntegerField(allow_null=True)
    cancelled_at = serializers.IntegerField(allow_null=True)
    request_counts = serializers.DictField()
    usage = serializers.DictField()
    metadata = serializers.DictField(allow_null=True)


class BatchList(ListPage):
    data = BatchObject(many=True)


class MessageOfBatch(serializers.Serializer[Any]):
    custom_id = serializers.RegexField(r"^[A-Za-z0-9_-]{1,64}$")
    params = serializers.DictField(help_text="The body of a call of /v1/messages.")


class MessageBatchRequest(serializers.Serializer[Any]):
    requests = MessageOfBatch(many=True)


class MessageBatch(serializers.Serializer[Any]):
    id = serializers.CharField()
    type = serializers.CharField()
    processing_status = serializers.ChoiceField(choices=("in_progress", "canceling", "ended"))
    request_counts = serializers.DictField(child=serializers.IntegerField())
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    cancel_initiated_at = serializers.DateTimeField(allow_null=True)
    archived_at = serializers.DateTimeField(allow_null=True)
    results_url = serializers.CharField(allow_null=True)


class MessageBatchList(serializers.Serializer[Any]):
    data = MessageBatch(many=True)
    has_more = serializers.BooleanField()
    first_id = serializers.CharField(allow_null=True)
    last_id = serializers.CharField(allow_null=True)


class DeletedMessageBatch(serializers.Serializer[Any]):
    id = serializers.CharField()
    type = serializers.CharField()
