"""What is asked when a model is added: where it is, and optionally its name."""

from __future__ import annotations

from django import forms
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanSwitchWidget

from hosting.actions.hosted_models import ModelRefused, add_model
from hosting.models import HostedModel


class NewModelForm(forms.Form):
    source = forms.CharField(
        label="Folder or Hugging Face id",
        help_text="A folder of this machine with an MLX model, or an id like "
        "mlx-community/Qwen3-4B-4bit, which is then fetched.",
        widget=UnfoldAdminTextInputWidget(attrs={"autofocus": True, "autocomplete": "off"}),
    )
    name = forms.CharField(
        required=False,
        max_length=100,
        help_text="What requests call it. Empty: from the folder or the id.",
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
    )
    is_default = forms.BooleanField(
        label="Make it the default", required=False, widget=UnfoldBooleanSwitchWidget
    )

    def clean_name(self) -> str:
        name = self.cleaned_data["name"]
        if HostedModel.objects.filter(name=name).exists():
            raise forms.ValidationError("There is a model of this name.")
        return name

    def add_model(self) -> HostedModel | None:
        """The registered model; None when it is refused, and the form then says why."""
        fields = self.cleaned_data
        try:
            return add_model(
                fields["source"].strip(), name=fields["name"], is_default=fields["is_default"]
            )
        except ModelRefused as refusal:
            self.add_error("source", str(refusal))
            return None
