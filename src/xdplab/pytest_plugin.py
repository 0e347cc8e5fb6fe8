"""pytest plugin: the fixture `xdp` runs, counts and measures XDP programs; docs/pytest.md.

Every pytest run of whoever has xdplab installed imports this file: it imports the standard
library and pytest, and the laboratory when a test first asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdplab.lab import Chosen, Entries, Loaded, Measured, Packet, Ran

_ENGINES = ("user", "kernel", "auto")
_MARKER = "xdp_engine"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the group xdplab in pytest --help."""
    group = parser.getgroup("xdplab", "XDP programs (xdplab)")
    group.addoption(
        "--xdplab-engines",
        default="user",
        metavar="ENGINE,...",
        help="Engines that tests with the fixture xdp run on, each in turn: user, kernel, or auto, "
        "the kernel where it may be used and else user. Default: user.",
    )
    group.addoption(
        "--xdplab-update",
        action="store_true",
        help="Write the baselines of xdp.check_time and xdp.check_instructions anew.",
    )
    group.addoption(
        "--xdplab-baselines",
        metavar="FOLDER",
        help="Where baselines are. Default: xdplab-baselines in pytest's root directory.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and refuse engines that there are not."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(name, ...): the engines that a test with the fixture xdp runs on (user, "
        "kernel, auto), whatever --xdplab-engines says",
    )
    _known(config.getoption("--xdplab-engines").split(","), "--xdplab-engines")


def _known(names: Sequence[str], where: str) -> list[str]:
    for name in names:
        if name not in _ENGINES:
            raise pytest.UsageError(
                f"{where}: there is no engine {name!r}. Give some of {', '.join(_ENGINES)}"
            )
    if not names:
        raise pytest.UsageError(f"{where} names no engine. Give some of {', '.join(_ENGINES)}")
    return list(dict.fromkeys(names))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that use xdp once on each engine; the first marker counts, nearest first."""
    if "xdp" not in metafunc.fixturenames:
        return
    marker = next(metafunc.definition.iter_markers(_MARKER), None)
    names = metafunc.config.getoption("--xdplab-engines").split(",")
    if marker is not None:
        names = _known([str(name) for name in marker.args], f"@pytest.mark.{_MARKER}")
    metafunc.parametrize("xdp", _known(names, "--xdplab-engines"), indirect=True)


@pytest.fixture
def xdp(request: pytest.FixtureRequest) -> Iterable[Xdp]:
    """XDP programs on an engine: load, run, count, measure, and check against baselines."""
    from xdplab import lab

    name = getattr(request, "param", "user")
    why = lab.why_not("kernel") if name != "user" else ""
    if name == "auto":
        name, why = ("user", "") if why else ("kernel", "")
    if why:
        pytest.skip(why)
    fixture = Xdp(request, name)
    yield fixture
    fixture.close()


class Xdp:
    """What the fixture `xdp` gives a test. `engine` is the one that this test runs on.

    Programs are OBJ or OBJ:PROG; a relative path is one from the test's file. A source (.bpf.c) is
    compiled, once a test.
    """

    def __init__(self, request: pytest.FixtureRequest, engine: str) -> None:
        self.engine = engine
        self._folder = request.path.parent
        self._config = request.config
        # The parameters of a test are in its name: each has baselines of its own.
        self._test = request.node.nodeid
        self._chosen: dict[str, Chosen] = {}
        self._loaded: dict[str, Loaded] = {}
        self._opened: list[Loaded] = []
        self._checks = 0

    def _program(self, program: str | Path) -> Chosen:
        from xdplab import lab

        name = str(self._folder / program)
        if name not in self._chosen:
            self._chosen[name] = lab.program_of(name)
        return self._chosen[name]

    def load(
        self,
        program: str | Path,
        *,
        maps: Entries | None = None,
        constants: Mapping[str, int | bytes] | None = None,
    ) -> Loaded:
        """Load a program to be run several times, with its maps and variables; it is given up at
        the test's end. See `xdplab.lab.load`. Skips where the kernel lacks what it needs."""
        from xdplab import lab
        from xdplab.errors import MissingFeatureError

        try:
            one = lab.load(self._program(program), self.engine, maps=maps, constants=constants)
        except MissingFeatureError as error:
            pytest.skip(str(error))
        self._opened.append(one)
        return one

    def run(self, program: str | Path, packet: Packet) -> Ran:
        """Run a program on a packet. In a test a program is loaded once, and keeps its maps."""
        name = str(program)
        if name not in self._loaded:
            self._loaded[name] = self.load(program)
        return self._loaded[name].run(packet)

    def maps(self, program: str | Path) -> Mapping[str, Any]:
        """The maps of a program that `run` runs, by name (`xdplab.lab.maps.BpfMap`)."""
        name = str(program)
        if name not in self._loaded:
            self._loaded[name] = self.load(program)
        return self._loaded[name].maps

    def bench(
        self,
        program: str | Path,
        baseline: str | Path | None = None,
        *,
        packet: Packet,
        time_s: float = 2.0,
        maps: Entries | None = None,
    ) -> Measured:
        """Measure a program, or two interleaved; see `xdplab.lab.measure`."""
        from xdplab import lab

        against = None if baseline is None else self._program(baseline)
        return lab.measure(
            self._program(program),
            against,
            packet=packet,
            engine=self.engine,
            time_s=time_s,
            maps=maps,
        )

    def assert_not_slower(self, measured: Measured, *, percent: float = 0, ns: float = 0) -> None:
        """Fail where a program is slower than what it was measured against, for sure and by more
        than a limit: the difference is resolved, and its interval is beyond `ns` and beyond
        `percent` of the baseline's cost."""
        from xdplab.records import RESOLVED

        difference = measured.difference
        if difference is None or difference.estimate is None:
            raise ValueError("nothing was measured against a baseline: give bench() two programs")
        figure = difference.estimate
        base = next(
            one.estimate.point
            for one in measured.document.results
            if one.variant == difference.baseline and one.estimate is not None
        )
        limit_ns = max(ns, percent / 100 * max(base, 0.0))
        if difference.verdict == RESOLVED and figure.low > limit_ns:
            pytest.fail(
                f"{difference.variant} is slower than {difference.baseline}: "
                f"{figure.point:+.2f} ns [{figure.low:+.2f}, {figure.high:+.2f}], where "
                f"{limit_ns:.2f} ns more are allowed",
                pytrace=False,
            )

    def check_time(
        self,
        program: str | Path,
        *,
        packet: Packet,
        percent: float,
        time_s: float = 2.0,
        maps: Entries | None = None,
    ) -> Measured:
        """Measure a program and fail where it is slower than its stored baseline, for sure and by
        more than `percent`. Skips without a baseline and where that is of an unlike machine."""
        from xdplab.pytest_baselines import check

        measured = self.bench(program, packet=packet, time_s=time_s, maps=maps)
        check(measured.document, self._baseline(), percent, "%", self._updates)
        return measured

    def check_instructions(
        self, program: str | Path, packets: Iterable[Packet], *, more: int = 0
    ) -> tuple[int, ...]:
        """Count a program's instructions for each packet, exactly, and fail where one takes over
        `more` beyond its stored baseline. Returns the counts.

        Always on the user-space engine, from maps as they are loaded. Counts of a .bpf.o are the
        same everywhere; those of a source are skipped where another compiler made the baseline.
        """
        from xdplab.pytest_baselines import check, count_document

        document, counts = count_document(self._program(program), packets)
        check(document, self._baseline(), more, "insns", self._updates)
        return counts

    @property
    def _updates(self) -> bool:
        return bool(self._config.getoption("--xdplab-update"))

    def _baseline(self) -> Path:
        """The file of the test's next check: by the test's name and the check's number in it."""
        from xdplab.pytest_baselines import file_name

        folder = self._config.getoption("--xdplab-baselines")
        place = Path(folder) if folder else self._config.rootpath / "xdplab-baselines"
        self._checks += 1
        return place / file_name(self._test, self._checks)

    def close(self) -> None:
        """Give up what was loaded."""
        for one in self._opened:
            one.close()
