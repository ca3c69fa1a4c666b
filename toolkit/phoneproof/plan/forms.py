"""Which form of a network a build is made from, where a plan has several."""

from collections.abc import Sequence

from phoneproof.plan.build_section import BuildSection
from phoneproof.plan.model_section import ModelSection
from phoneproof.recipes.rows import RECIPES
from phoneproof.recipes.table import Recipe


def fitting_forms(forms: Sequence[ModelSection], build: BuildSection) -> tuple[ModelSection, ...]:
    """The forms that the build can be made from, or for a file be compared with.

    One that the build's recipe takes as it is goes before one that is exported first.
    """
    wanted = [form for form in forms if build.source in (None, form.format)]
    if build.file is not None:
        return tuple(wanted)
    routes = build.row.routes
    reached = [form for form in wanted if form.format in routes]
    direct = [form for form in reached if routes[form.format].through is None]
    return tuple(direct or reached)


def form_for(forms: Sequence[ModelSection], build: BuildSection) -> ModelSection:
    """The only fitting form. ValueError where `no_form` tells what is wrong."""
    (form,) = fitting_forms(forms, build)
    return form


def no_form(forms: Sequence[ModelSection], build: BuildSection) -> tuple[str, str] | None:
    """What is wrong and what to do, where not exactly one form fits; None where one does."""
    have = ", ".join(repr(form.format.value) for form in forms)
    fitting = fitting_forms(forms, build)
    if len(fitting) == 1:
        return None
    if fitting:
        several = " or ".join(repr(form.format.value) for form in fitting)
        return f"Several forms of {build.model!r} fit {build.row.name}.", f"Add source = {several}."
    if build.source is not None and not any(form.format is build.source for form in forms):
        return f"The model {build.model!r} has no form {build.source.value!r}.", f"It has {have}."
    wanted = [form.format for form in forms if build.source in (None, form.format)]
    named = ", ".join(repr(form.value) for form in wanted)
    takes = ", ".join(repr(one.value) for one in build.row.routes)
    step = f"It is made from {takes}: give the model in one of these forms too"
    instead = [row.name for row in _alike(build) if any(form in row.routes for form in wanted)]
    return f"{build.row.name} is not made from {named}.", f"{step}{_or_use(instead)}."


def _alike(build: BuildSection) -> list[Recipe]:
    """The recipes that quantize as the build's does, into another format."""
    kind = build.row.precision, build.row.mode
    return [row for row in RECIPES.values() if (row.precision, row.mode) == kind]


def _or_use(names: Sequence[str]) -> str:
    return f", or use {' or '.join(map(repr, names))}" if names else ""
