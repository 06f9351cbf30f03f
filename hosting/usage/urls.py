"""Addresses of the usage pages."""

from django.urls import path

from hosting.usage import pages

urlpatterns = [
    path("usage/", pages.my_usage, name="my-usage"),
    path("usage/csv", pages.my_csv, name="my-usage-csv"),
    path("usage/team/", pages.team_usage, name="team-usage"),
    path("usage/team/csv", pages.team_csv, name="team-usage-csv"),
]
