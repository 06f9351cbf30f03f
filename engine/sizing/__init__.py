"""How much memory a model and its rows need, from its config alone. Standard library and wire only:
the engine plans with it, the web side shows it beside a form."""
