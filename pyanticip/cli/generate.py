"""Click commands generated from option classes: a field is an option, an argument or :class:`Overrides`.

A command names its class as ``module:Class``; the module is imported when the command's options are needed,
so that listing the commands costs nothing. The command's function receives one validated instance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
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
    """A command with an option class (``options``), and perhaps an extra that it needs (``extra``)."""

    def __init__(
        self, *args: Any, options: str | None = None, extra: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **{**kwargs, "help": _help(kwargs.get("help"))})
        self._options_path, self._extra = options, extra
        #: Field and dotted key of each option that overrides a key of a settings tree.
        self._override_keys: dict[str, tuple[str, str]] = {}
        #: Those overrides that are paths and must exist.
        self._input_paths: list[str] = []
        if options is not None:
            del self.params  # click's attribute would hide the property below

    @cached_property
    def options(self) -> type[Options]:
        """The option class, imported on first use."""
        module, _, name = str(self._options_path).partition(":")
        options: type[Options] = getattr(import_module(module), name)
        return options

    @cached_property
    def params(self) -> list[click.Parameter]:  # type: ignore[override]
        """The parameters: arguments, then the class's own options, then those of its bases."""
        from pyanticip.options import Overrides, command_line_settings

        fields = self.options.model_fields
        own = [name for kind in self.options.__mro__ for name in vars(kind).get("__annotations__", ())]
        arguments = [name for name, field in fields.items() if command_line_settings(field).get("argument")]
        params = []
        for name in dict.fromkeys([*arguments, *(name for name in own if name in fields)]):
            field = fields[name]
            overrides = next((each for each in field.metadata if isinstance(each, Overrides)), None)
            if overrides is None:
                params.append(_parameter(name, field))
                continue
            for option, key in overrides.names.items():
                self._override_keys[option] = (name, key)
                leaf = _leaf(overrides.tree, key)
                self._input_paths += [option] if command_line_settings(leaf).get("exists") else []
                params.append(_parameter(option, leaf, is_override=True))
        return params

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click, where the last of repeated options wins; but a repeated path is refused as a mistake."""
        with augment_usage_errors(ctx):
            *_, order = self.make_parser(ctx).parse_args(list(args))
        for param, times in Counter(order).items():
            is_path = isinstance(param, click.Option) and isinstance(param.type, click.Path)
            if times > 1 and is_path and not param.multiple:
                raise click.UsageError(f"{param.opts[0]}: expected one, got {times}", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Build the options, call the function with them, and print the ``Answer`` that it returns."""
        if self._options_path is None:
            return super().invoke(ctx)
        from pydantic import ValidationError

        from pyanticip.options import JsonOption, first_problem

        given: dict[str, Any] = {}
        for name, value in ctx.params.items():
            if value is None or (value == () and name in self._override_keys):
                continue
            field, key = self._override_keys.get(name, (name, ""))
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
        for path in (ctx.params[name] for name in self._input_paths if ctx.params[name] is not None):
            Path(path).stat()  # raises an error that names the path
        if self._extra is not None:
            needs(self._extra)
        assert self.callback is not None
        with augment_usage_errors(ctx):
            returned = self.callback(options)
        if returned is None:
            return
        result, text, *code = returned
        answer(result, text, isinstance(options, JsonOption) and options.as_json)
        if any(code):
            raise click.exceptions.Exit(*code)


_IN_PAGE = "docs/experiments/{}/page.md says which commit has it"
_BENCH = "python -m pytest tests/benches -o addopts= --benchmark-only -k"
SUCCESSORS = {
    "train study": "python -m training.studies geometric-bias --out RUNS",
    "train study-motion": _IN_PAGE.format("geometry-motion"),
    "train study-parts": _IN_PAGE.format("motion-risk"),
    "train patterns": _IN_PAGE.format("trajectory-positions"),
    "train planning": _IN_PAGE.format("planning-signal"),
    "evaluate study": "python -m training.studies geometric-bias --out RUNS",
    "evaluate study-motion": _IN_PAGE.format("geometry-motion"),
    "evaluate study-parts": _IN_PAGE.format("motion-risk"),
    "evaluate patterns": _IN_PAGE.format("trajectory-positions"),
    "evaluate planning": _IN_PAGE.format("planning-signal"),
    "evaluate writing": _IN_PAGE.format("planning-signal"),
    "evaluate gate": _IN_PAGE.format("commitment-gate"),
    "evaluate generation": _IN_PAGE.format("commitment-gate"),
    "tasks report": f"pyanticip tasks evaluate; {_IN_PAGE.format('prism-tasks')}",
    **{f"bench {part}": f"{_BENCH} {part}" for part in ("field", "prism", "family", "forecast", "positions")},
}
"""Research commands of earlier versions, and what replaces them, mostly in a clone of the repository."""


class Group(click.Group):
    """A group that suggests the nearest command and lists commands in the order they were added."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "help": _help(kwargs.get("help"))})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of definition, which is that of a user's work, not alphabetical."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """As click, with a suggestion in the error for an unknown name."""
        if successor := SUCCESSORS.get(f"{ctx.info_name} {cmd_name}"):
            raise click.UsageError(f"{cmd_name}: is no longer a command; use: {successor}", ctx)
        command = super().get_command(ctx, cmd_name)
        if command is None and not cmd_name.startswith("-"):
            raise click.UsageError(f"no command {cmd_name!r}{suggestion(cmd_name, self.commands)}", ctx)
        return command


def _help(docstring: str | None) -> str:
    """A docstring as click's help text, with the line breaks of its examples kept."""
    return cleandoc(docstring or "").replace("\n\nExample:", "\n\n\b\nExample:")


class _PydanticType(click.ParamType):  # type: ignore[type-arg]
    """A text that pydantic can parse. Validated here, passed on as text: the option class parses it again."""

    name = "text"

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self.adapter = adapter

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text itself, if it is valid."""
        from pydantic import ValidationError

        from pyanticip.options import first_problem

        try:
            self.adapter.validate_python(value)
        except ValidationError as error:
            self.fail(first_problem(error), param, ctx)
        return value


class _Path(click.Path):
    """A non-empty path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, if it is not empty."""
        from pyanticip.options import non_empty_path

        try:
            non_empty_path(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


def _leaf(tree: Any, key: str) -> FieldInfo:
    """The field at a dotted key of a settings tree."""
    *tables, last = key.split(".")
    for table in tables:
        tree = tree.model_fields[table].annotation
    field: FieldInfo = tree.model_fields[last]
    return field


def _parameter(name: str, field: FieldInfo, is_override: bool = False) -> click.Parameter:
    """One option or argument; an override of a settings tree is optional and defaults to None."""
    from pyanticip.options import command_line_settings

    settings = command_line_settings(field)
    # The descriptions of a tree's fields are docstrings: strip their markup.
    text = re.sub(r':\w+:`~?(?:[\w.]*\.)?(\w+)`|``"?(.+?)"?``', r"\1\2", field.description or "")
    text = " ".join(text.split())
    annotation, metadata, many = _unwrapped(field.annotation, list(field.metadata))
    required = field.is_required() and not is_override
    default = None if is_override or field.is_required() else field.default
    # Click does not know an override's default: what is not given is left to a rig or a file of options.
    usual = field.default if is_override and "[default" not in text else None
    if isinstance(usual, (str, int, float)) and usual is not False and usual != "":
        text += f" [default: {name.replace('_', '-') if usual is True else usual}]"
    if settings.get("argument"):
        kind = _type(annotation, metadata)
        return click.Argument(
            [name], type=kind, nargs=-1 if many else 1, required=required, metavar=settings.get("metavar")
        )
    flag = settings.get("flag") or "--" + name.replace("_", "-")
    if annotation is bool:
        if default is not False and "/" not in flag:
            flag += "/--no-" + flag[2:]
        return click.Option(
            [name, flag], default=default, help=text, show_default=bool(default), is_flag=True
        )
    extra = {} if settings.get("alone") is None else {"is_flag": False, "flag_value": settings["alone"]}
    if not required:
        # Click takes any default that is passed, even None, for the value of a required option.
        extra["default"] = default
    return click.Option(
        [name, flag],
        type=_type(annotation, metadata),
        multiple=many,
        required=required,
        show_default=isinstance(default, (str, int, float, Path)) and default != "",
        metavar=settings.get("metavar"),
        help=text,
        envvar=settings.get("variable"),
        shell_complete=_completion(settings.get("names")),
        show_envvar=True,
        **extra,
    )


def _completion(names: str | None) -> Callable[[click.Context, click.Parameter, str], list[str]] | None:
    """What completes a value on Tab, from the names of a registry; None leaves it to the type."""
    if names is None:
        return None
    module, _, attribute = names.partition(":")

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        known: Sequence[str] = getattr(import_module(module), attribute).names()
        return [name for name in known if name.startswith(incomplete)]

    return complete


def _unwrapped(annotation: Any, metadata: list[Any]) -> tuple[Any, list[Any], bool]:
    """The type of one value, without None, Annotated and tuple; its limits; whether it may be repeated."""
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
    """Click's own type where it has one, since its help shows choices and ranges; else a pydantic one."""
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
        kind.name = "integer" if annotation is int else "number"  # else the error says "integer range"
        return kind
    if annotation is Path:
        return _Path(path_type=Path, readable=False)  # unreadable files are reported when they are opened
    if annotation is str and not metadata:
        return click.STRING
    from pydantic import TypeAdapter

    return _PydanticType(TypeAdapter(Annotated[annotation, *metadata] if metadata else annotation))
