"""What all builders have in common: functions, options, and the classes that Spark gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from tutorial_pkg.builder.context import SourceContext, SplitContext
from tutorial_pkg.builder.functions import (
    SECONDS,
    Function,
    Functions,
    Retries,
    check_travel,
    checked,
)
from tutorial_pkg.builder.rows import Buffer
from tutorial_pkg.core.options import Option, Options, OptionValues, choice, integer
from tutorial_pkg.core.spark_versions import stream_reader

Parse = Callable[[str], Any]
MakeReader = Callable[[Functions, SplitContext], Any]
PlainSchema = str | StructType
Schema = PlainSchema | Callable[[OptionValues], PlainSchema]
State = TypeVar("State")  # what `create` returns, and all other functions take


# ---- The classes that Spark gets -----------------------------------------------------------------


class Built(DataSource):
    """The base of all classes that builders make."""

    functions: ClassVar[Functions]
    declared: ClassVar[Options]

    @classmethod
    def name(cls) -> str:
        return cls.functions.format

    def values(self) -> OptionValues:
        """Return the options of the query. Raises `ValueError` for a wrong one."""
        return self.declared.parse(self.options)


class BuiltSource(Built):
    """The base of sources. `readers` has a function for "batch", for "stream", or both."""

    reads_log = False  # so the conformance kit knows when only a running query adds rows
    readers: ClassVar[Mapping[str, MakeReader]]

    def schema(self) -> PlainSchema:
        columns: PlainSchema = self.functions.given["schema"](self.values())
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        context = SplitContext(self.values(), batch=True, schema=schema)
        reader: DataSourceReader = self.readers["batch"](self.functions, context)
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        context = SplitContext(self.values(), schema=schema)
        return stream_reader(self.readers["stream"](self.functions, context))


class Format(DataSource):
    """One name for several sources and sinks; the query's options choose.

        class Orders(Format):
            format = "orders"
            install = "pip install orders-client"

            def source(self):
                from my.orders import changes, table

                return changes if self.options.get("mode") == "changes" else table

    `source` and `sink` return any `DataSource` class. `spark.read` and `spark.readStream` use the
    same source. Import in them what needs another package: the error for a missing one quotes
    `install`.
    """

    format: ClassVar[str]
    install: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return cls.format

    def source(self) -> type[DataSource]:
        """Return the source of this query. By default there is none."""
        return DataSource  # its methods raise an error that names the missing one

    def sink(self) -> type[DataSource]:
        """Return the sink of this query. By default there is none."""
        return DataSource

    def schema(self) -> StructType | str:
        return self._made(self.source).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._made(self.source).reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return self._made(self.source).streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return self._made(self.sink).writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return self._made(self.sink).streamWriter(schema, overwrite)

    def _made(self, choose: Callable[[], type[DataSource]]) -> DataSource:
        try:
            return choose()(self.options)
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            raise ImportError(
                f"format `{self.name()}` needs the package {package}: {self.install}"
            ) from None


# ---- Builders ------------------------------------------------------------------------------------


class Declaration:
    """Functions and options, as they are declared one after the other."""

    def __init__(self, name: str, schema: Schema = "") -> None:
        self._name, self._schema = name, schema
        self._given: dict[str, Function] = {}
        self._options: list[Option] = []
        self._retries = Retries()
        self._set("schema", schema if callable(schema) else lambda options: schema, "options")

    def option(
        self, name: str, parse: Parse, default: Any, meaning: str, allowed: str | None = None
    ) -> Self:
        """Declare an option: the query's `.option(name, …)` reaches `context.options`.

        `parse` turns a string into a value, or raises `ValueError`: `integer(0)`, `boolean`,
        `choice("a", "b")`, `not_empty`, `names`, `local_directory`, `secret` of
        `tutorial_pkg.builder`, or a function like `float`. `default` is a value, or `REQUIRED`.
        `allowed` describes the accepted values in errors.
        """
        return self.options(Option(name, parse, default, meaning, allowed))

    def options(self, *declared: Option) -> Self:
        """Declare several options, each an `Option`, which formats can share."""
        for option in declared:
            checked(f"option {option.name}", option.parse, "text")
            if option.parse in (bool, integer, choice):  # to `bool`, the text "false" is true
                raise ValueError(
                    f"option {option.name}: `{option.parse.__name__}` does not parse; use "
                    '`boolean`, `integer(0)` or `choice("a", "b")`'
                )
        self._options += declared
        return self

    def retry(
        self,
        *errors: type[BaseException],
        seconds: float = Retries.seconds,
        pause: float = Retries.pause,
        transient: Callable[[BaseException], bool] | None = None,
        option: str = SECONDS,
    ) -> Self:
        """Declare which errors are transient, and for how long a function is repeated after one.

        Without a call, these are `ConnectionError` and `TimeoutError`, for 30 seconds. Any other
        error ends the query at once. docs/builder.md lists which functions are repeated, and how.

        Args:
            errors: the transient errors. One also counts if it led to another.
            seconds: the default of the query's option `retrySeconds`; 0 for never.
            pause: the first pause, in seconds: the default of `retryPauseMillis`.
            transient: `transient(error)` recognizes a client's own errors.
            option: another name for `retrySeconds`. It may be an option that you declare yourself,
                in milliseconds if the name ends in `Ms` or `Millis`.
        """
        if transient is not None:
            self._set("transient", transient, "error")
        errors = errors or (() if transient else Retries.errors)
        self._retries = Retries(errors, seconds, pause, transient, option)
        return self

    def build(self) -> type[DataSource]:
        """Return the class for `spark.dataSource.register`.

        Raises `ValueError` for a function that is missing, or cannot be pickled.
        """
        raise NotImplementedError

    def _set(
        self, name: str, function: Function, *parameters: str, may_yield: bool = False
    ) -> Self:
        self._given[name] = checked(name, function, *parameters, may_yield=may_yield)
        return self

    def _require(self, *names: str) -> None:
        for name in names:
            if name not in self._given:
                raise ValueError(f"format `{self._name}`: the function `{name}` is missing")

    def _check_count(self, count: Any, most: int) -> None:
        if not isinstance(count, int) or not 1 <= count <= most:
            raise ValueError(f"format `{self._name}`: `distributed` takes 1..{most}, got {count!r}")

    def _build(
        self, base: type[Built], text: str, guarantee: str, *own: Option, **more: Any
    ) -> type[DataSource]:
        """Return the class for Spark, with the builder's `own` options and `more` attributes."""
        parsers = {f"option {option.name}": option.parse for option in self._options}
        check_travel(self._name, self._given | parsers)
        options = [*own, *self._retries.options(self._options), *self._options]
        names = set[str]()
        for option in options:
            if option.name.lower() in names:
                raise ValueError(f"format `{self._name}`: option `{option.name}` exists; rename it")
            names.add(option.name.lower())
        declared = Options(self._name, options)
        doc = f"{text}\n\nGuarantee: {guarantee}, on the conditions in docs/builder.md.\n"
        doc += f"\nOptions:\n{declared.table() or '    none'}\n"
        if callable(columns := self._schema):
            doc += "\nSchema: as the options say\n"
        elif columns:  # `toDDL` would need a session
            text = columns if isinstance(columns, str) else columns.simpleString()
            doc += f"\nSchema: {text}\n"
        words = "".join(part.capitalize() for part in self._name.split("_"))
        more |= {
            "functions": Functions(self._name, dict(self._given), self._retries),
            "declared": declared,
            "__doc__": doc,
        }
        for role, method in (("batch", "reader"), ("stream", "streamReader")):
            if role not in more.get("readers", (role,)):
                more[method] = getattr(DataSource, method)  # raises an error
        return type(f"{words}DataSource", (base,), more)


class SplitsDeclaration(Declaration):
    """For sources with functions that share what `connect` opens in each process."""

    def connect(self, function: Callable[[OptionValues], Any]) -> Self:
        """Set `connect(options)`, which opens what others find in `context.connection`.

        It is called once in each process that needs it: beside the driver, and in each task.
        """
        return self._set("connect", function, "options")

    def close(self, function: Callable[[Any], object]) -> Self:
        """Set `close(connection)`, which closes what `connect` opened, also after an error."""
        return self._set("close", function, "connection")


class InstancesDeclaration(Declaration, Generic[State]):
    """For sources with functions that run in instances, each with a state from `create`."""

    _MOST_INSTANCES = 1

    def __init__(self, name: str, schema: Schema, create: Callable[[SourceContext], State]) -> None:
        super().__init__(name, schema)
        self._count = 1
        self._set("create", create, "context")

    def fill(self, function: Callable[[State, Buffer], object]) -> Self:
        """Set `fill(state, buffer)`, which adds the rows that are available now, and returns.

        It is called again at once if it added rows, otherwise after some milliseconds. In a stream,
        the rows of one call and the snapshot after them become one frame, which is either in the
        log or not. A batch has whole frames, so `maxRowsPerTrigger` doesn't cut what one call adds:
        add some thousand rows at most, and wait for new ones for a second at most.
        """
        return self._set("fill", function, "state", "buffer")

    def destroy(self, function: Callable[[State], object]) -> Self:
        """Set `destroy(state)`, which closes what `create` opened: once, also after an error."""
        return self._set("destroy", function, "state")

    def distributed(self, count: int) -> Self:
        """Run that many instances, unless the query's option `parallelism` says otherwise.

        `create` must give each its own share, by `context.index` and `context.count`.
        """
        self._check_count(count, self._MOST_INSTANCES)
        self._count = count
        return self

    def _parallelism(self, meaning: str) -> Option:
        return Option("parallelism", integer(1, self._MOST_INSTANCES), self._count, meaning)
