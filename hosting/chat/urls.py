"""Addresses of the chat page and of its JSON."""

from django.urls import path

from hosting.chat import conversations, images, models, my_data, pages, tool_calls, turns

urlpatterns = [
    path("", pages.home, name="home"),
    path("c/<uuid:conversation_id>", pages.chat_page, name="conversation"),
    path("chat/conversations", conversations.conversation_list),
    path("chat/conversations/<uuid:conversation_id>", conversations.conversation),
    path("chat/conversations/<uuid:conversation_id>/export", conversations.export),
    path("chat/messages", turns.send),
    path("chat/messages/<uuid:message_id>/regenerate", turns.regenerate),
    path("chat/generations/<uuid:generation_id>/cancel", turns.cancel),
    path("chat/messages/<uuid:message_id>/stop", tool_calls.stop),
    path("chat/messages/<uuid:message_id>/go-on", tool_calls.go_on),
    path("chat/tool-calls/<uuid:call_id>/decide", tool_calls.decide),
    path("chat/tool-servers", tool_calls.server_list),
    path("chat/images", images.store),
    path("chat/images/<uuid:image_id>", images.image),
    path("chat/models", models.model_list),
    path("accounts/data/", my_data.my_data, name="my-data"),
    path("accounts/data/export", my_data.export, name="my-data-export"),
    path("accounts/data/forget", my_data.forget, name="my-data-forget"),
    path("accounts/data/keep", my_data.keep, name="my-data-keep"),
]
