"""Commands made from option classes: each field is an option, an argument or a part of a larger tree.

A command names its class as ``module:Class``; the module is imported when the command's options are asked
for, so that listing the commands costs nothing. What was given becomes one instance, checked, and that is
what the command's function gets.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import click
from click.core import augment_usage_errors

from pyanticip.cli.terminal import answer, needs
from pyanticip.errors import OptionError, suggestion

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.fields import FieldInfo

    from pyanticip.options import Options


class Command(click.Command):
    """A command of an option class (``options``) that may need an extra of this package (``extra``)."""

    def __init__(
        self, *args: Any, options: str | None = None, extra: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **{**kwargs, "help": _help(kwargs.get("help"))})
        self._named, self._extra = options, extra
        #: Where in the instance an option belongs that is a part of a tree: field and dotted key.
        self._places: dict[str, tuple[str, str]] = {}
        #: Those of them that have to be there.
        self._there: list[str] = []
        if options is not None:
            del self.params  # in the way of the property

    @cached_property
    def options(self) -> type[Options]:
        """The class, imported now."""
        module, _, name = str(self._named).partition(":")
        found: type[Options] = getattr(import_module(module), name)
        return found

    @cached_property
    def params(self) -> list[click.Parameter]:  # type: ignore[override]
        """One for each field: arguments, then the class's own options, then those of its bases."""
        from pyanticip.options import Overrides, shown

        fields = self.options.model_fields
        own = [name for kind in self.options.__mro__ for name in vars(kind).get("__annotations__", ())]
        arguments = [name for name, field in fields.items() if shown(field).get("argument")]
        found = []
        for name in dict.fromkeys([*arguments, *(name for name in own if name in fields)]):
            field = fields[name]
            tree = next((each for each in field.metadata if isinstance(each, Overrides)), None)
            if tree is None:
                found.append(_parameter(name, field))
                continue
            for option, key in tree.names.items():
                self._places[option] = (name, key)
                leaf = _leaf(tree.tree, key)
                self._there += [option] if shown(leaf).get("exists") else []
                found.append(_parameter(option, leaf, within=True))
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does. The last of several settings counts, but a file that nobody reads is a mistake."""
        with augment_usage_errors(ctx):
            *_, order = self.make_parser(ctx).parse_args(list(args))
        for param, times in Counter(order).items():
            if times > 1 and isinstance(param, click.Option) and _is_one_file(param):
                raise click.UsageError(f"{param.opts[0]}: expected one, got {times}", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Build the options from what was given and call the function with them.

        What it returns is shown: a result, its text for people, and the exit code where it may not be 0.
        """
        if self._named is None:
            return super().invoke(ctx)
        from pydantic import ValidationError

        from pyanticip.options import JsonOption, first_problem

        given: dict[str, Any] = {}
        for name, value in ctx.params.items():
            if value is None or (value == () and name in self._places):
                continue
            field, key = self._places.get(name, (name, ""))
            table = given
            for part in [field, *key.split(".")][:-1] if key else []:
                table = table.setdefault(part, {})
            table[key.rpartition(".")[2] or name] = value
        try:
            options = self.options(**given)
        except ValidationError as error:
            name = "".join(map(str, error.errors()[0]["loc"][:1]))
            flag = next((p.opts[0] for p in self.params if p.name == name), name)
            raise OptionError(f"{ctx.info_name}: {flag}{first_problem(error).removeprefix(name)}") from None
        options.check()
        for path in (ctx.params[name] for name in self._there if ctx.params[name] is not None):
            Path(path).stat()  # the error names it
        if self._extra is not None:
            needs(self._extra)
        assert self.callback is not None
        with augment_usage_errors(ctx):
            found = self.callback(options)
        if found is None:
            return
        result, text, *code = found
        answer(result, text, isinstance(options, JsonOption) and options.as_json)
        if any(code):
            raise click.exceptions.Exit(*code)


_OLD = "docs/experiments/{}/page.md says which commit has it"
_BENCH = "python -m pytest tests/benches -o addopts= --benchmark-only -k"
SUCCESSORS = {
    "train study": "python -m training.studies geometric-bias --out RUNS",
    "train study-motion": _OLD.format("geometry-motion"),
    "train study-parts": _OLD.format("motion-risk"),
    "train patterns": _OLD.format("trajectory-positions"),
    "train planning": _OLD.format("planning-signal"),
    "evaluate study": "python -m training.studies geometric-bias --out RUNS",
    "evaluate study-motion": _OLD.format("geometry-motion"),
    "evaluate study-parts": _OLD.format("motion-risk"),
    "evaluate patterns": _OLD.format("trajectory-positions"),
    "evaluate planning": _OLD.format("planning-signal"),
    "evaluate writing": _OLD.format("planning-signal"),
    "evaluate gate": _OLD.format("commitment-gate"),
    "evaluate generation": _OLD.format("commitment-gate"),
    "tasks report": f"pyanticip tasks evaluate; {_OLD.format('prism-tasks')}",
    **{f"bench {part}": f"{_BENCH} {part}" for part in ("field", "prism", "family", "forecast", "positions")},
}
"""Commands of earlier versions that asked research questions, and what asks them now, most in a clone."""


class Group(click.Group):
    """A group that suggests the nearest command and lists commands in the order they were added."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "help": _help(kwargs.get("help"))})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of definition: the order of work, not of the alphabet."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """As click does, with our suggestion in the error."""
        if successor := SUCCESSORS.get(f"{ctx.info_name} {cmd_name}"):
            raise click.UsageError(f"{cmd_name}: is no command any more, but: {successor}", ctx)
        found = super().get_command(ctx, cmd_name)
        if found is None and not cmd_name.startswith("-"):
            raise click.UsageError(f"no command {cmd_name!r}{suggestion(cmd_name, self.commands)}", ctx)
        return found


def _help(docstring: str | None) -> str:
    """A docstring as click takes it: the line breaks of its examples are kept."""
    return cleandoc(docstring or "").replace("\n\nExample:", "\n\n\b\nExample:")


def _is_one_file(option: click.Option) -> bool:
    return isinstance(option.type, click.Path) and not option.multiple


class _Parsed(click.ParamType):  # type: ignore[type-arg]
    """Whatever pydantic reads from a text. What is given on is the text: the class reads it again."""

    name = "text"

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self.adapter = adapter

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value itself, where it can be read."""
        from pydantic import ValidationError

        from pyanticip.options import first_problem

        try:
            self.adapter.validate_python(value)
        except ValidationError as error:
            self.fail(first_problem(error), param, ctx)
        return value


class _Path(click.Path):
    """A path that is not empty."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        from pyanticip.options import a_path

        try:
            a_path(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


def _leaf(tree: Any, key: str) -> FieldInfo:
    """The field at a dotted key of a tree of settings."""
    *tables, last = key.split(".")
    for table in tables:
        tree = tree.model_fields[table].annotation
    found: FieldInfo = tree.model_fields[last]
    return found


def _parameter(name: str, field: FieldInfo, within: bool = False) -> click.Parameter:
    """One option or argument; ``within`` a larger tree, None where it is not given."""
    from pyanticip.options import shown

    told = shown(field)
    # A tree's fields are described in their docstrings, which are marked up.
    text = re.sub(r':\w+:`~?(?:[\w.]*\.)?(\w+)`|``"?(.+?)"?``', r"\1\2", field.description or "")
    text = " ".join(text.split())
    annotation, metadata, many = _unwrapped(field.annotation, list(field.metadata))
    required = field.is_required() and not within
    default = None if within or field.is_required() else field.default
    if told.get("argument"):
        kind = _type(annotation, metadata)
        return click.Argument(
            [name], type=kind, nargs=-1 if many else 1, required=required, metavar=told.get("metavar")
        )
    flag = told.get("flag") or "--" + name.replace("_", "-")
    if annotation is bool:
        if default is not False and "/" not in flag:
            flag += "/--no-" + flag[2:]
        return click.Option([name, flag], default=default, help=text, show_default=False, is_flag=True)
    extra = {} if told.get("alone") is None else {"is_flag": False, "flag_value": told["alone"]}
    if not required:
        # Click takes any default that is said, None too, for a value of what is required.
        extra["default"] = default
    return click.Option(
        [name, flag],
        type=_type(annotation, metadata),
        multiple=many,
        required=required,
        show_default=isinstance(default, (str, int, float, Path)) and default != "",
        metavar=told.get("metavar"),
        help=text,
        envvar=told.get("variable"),
        show_envvar=True,
        **extra,
    )


def _unwrapped(annotation: Any, metadata: list[Any]) -> tuple[Any, list[Any], bool]:
    """What one word has to be: without None, Annotated and tuple; its limits; whether there may be many."""
    many = False
    while True:
        kinds = get_args(annotation)
        if get_origin(annotation) is Annotated:
            annotation, *more = kinds
            metadata = [*metadata, *(part for each in more for part in getattr(each, "metadata", [each]))]
        elif get_origin(annotation) in (Union, UnionType) and NoneType in kinds:
            annotation = Union[tuple(kind for kind in kinds if kind is not NoneType)]  # noqa: UP007
        elif get_origin(annotation) is tuple and kinds[-1] is Ellipsis:
            annotation, many = kinds[0], True
        else:
            return annotation, metadata, many


def _type(annotation: Any, metadata: list[Any]) -> click.ParamType:  # type: ignore[type-arg]
    """Click's own where it has one: its help says choices and ranges."""
    limits = {n: getattr(each, n) for each in metadata for n in ("ge", "gt", "le", "lt") if hasattr(each, n)}
    if get_origin(annotation) is Literal:
        return click.Choice([str(choice) for choice in get_args(annotation)])
    if annotation in (int, float) and len(limits) == len(metadata):
        if not limits:
            return click.INT if annotation is int else click.FLOAT
        kind = (click.IntRange if annotation is int else click.FloatRange)(
            min=limits.get("ge", limits.get("gt")),
            max=limits.get("le", limits.get("lt")),
            min_open="gt" in limits,
            max_open="lt" in limits,
        )
        kind.name = "integer" if annotation is int else "float"  # of what is none: "no valid integer range"
        return kind
    if annotation is Path:
        return _Path(path_type=Path, readable=False)  # told when it is read
    if annotation is str and not metadata:
        return click.STRING
    from pydantic import TypeAdapter

    return _Parsed(TypeAdapter(Annotated[annotation, *metadata] if metadata else annotation))
