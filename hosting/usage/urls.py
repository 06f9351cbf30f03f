"""Addresses of the usage pages."""

from django.urls import path

from hosting.usage import limits_pages, pages

urlpatterns = [
    path("usage/", pages.my_usage, name="my-usage"),
    path("usage/csv", pages.my_csv, name="my-usage-csv"),
    path("usage/team/", pages.team_usage, name="team-usage"),
    path("usage/team/csv", pages.team_csv, name="team-usage-csv"),
    path("limits/", limits_pages.my_limits, name="my-limits"),
    path("limits/keys/<int:key_id>/", limits_pages.key_limits, name="limits-of-key"),
    path("limits/people/<int:user_id>/", limits_pages.person_limits, name="limits-of-person"),
]
