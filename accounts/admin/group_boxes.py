"""The choice among groups in the administration: boxes to tick, or a word where there are none."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget


class GroupBoxes(UnfoldAdminCheckboxSelectMultipleWidget):
    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> str:
        if any(self.choices):
            return str(super().render(name, value, attrs, renderer))
        add = reverse("admin:auth_group_add")
        return format_html('<p>There are no groups yet. <a href="{}">Add one</a></p>', add)
