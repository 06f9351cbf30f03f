"""What is asked when a model is added: where it is, and optionally its name."""

from __future__ import annotations

from django import forms
from django.core.validators import RegexValidator
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanSwitchWidget

from hosting.actions.hosted_models import ModelRefused, NameTaken, add_model
from hosting.admin.first_field import FirstField
from hosting.models import HostedModel
from hosting.models.hosted_model import NAME_PATTERN


class NewModelForm(forms.Form):
    source = forms.CharField(
        label="Folder or Hugging Face id",
        help_text="A folder of this machine with an MLX model, or an id like "
        "mlx-community/Qwen3-4B-4bit, which is then fetched.",
        widget=FirstField,
    )
    name = forms.CharField(
        required=False,
        max_length=100,
        validators=[
            RegexValidator(
                NAME_PATTERN, "Letters, digits, and . _ : / - only; first a letter or digit."
            )
        ],
        help_text="What requests call it. Empty: from the folder or the id.",
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
    )
    is_default = forms.BooleanField(
        label="Make it the default", required=False, widget=UnfoldBooleanSwitchWidget
    )

    def add_model(self) -> HostedModel | None:
        """The registered model; None when it is refused, and the form then says why."""
        fields = self.cleaned_data
        try:
            return add_model(
                fields["source"].strip(),
                name=fields["name"],
                is_default=fields["is_default"],
                is_new=True,
            )
        except NameTaken as refusal:
            self.add_error("name", str(refusal))
            return None
        except ModelRefused as refusal:
            self.add_error("source", str(refusal))
            return None
