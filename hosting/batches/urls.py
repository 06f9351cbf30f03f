"""Addresses of the page of batches."""

from django.urls import path

from hosting.batches import pages

urlpatterns = [
    path("batches/", pages.my_batches, name="my-batches"),
    path("batches/<str:batch_id>/cancel/", pages.cancel, name="cancel-batch"),
    path("batches/files/<str:file_id>", pages.download, name="download-batch-file"),
]
