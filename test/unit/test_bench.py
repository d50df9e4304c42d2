"""What `scripts/bench` makes of its measurements; nothing here is about how long anything takes."""

import ctypes
import json
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from pathlib import Path
from pkgutil import resolve_name

import pytest
import torch

from bench import __main__ as command
from bench import turns, works
from bench.forward import WrongResult, difference
from bench.goals import BEST_PEER, GOALS, LIMIT, Criterion
from bench.limits import Machine, program
from bench.report import markdown, number, text, verdict
from bench.results import Figure, OtherSettings, Results, Run, load, middle, worst
from bench.turns import Conditions, Entrant, Failed, Rival, measure
from bench.worker import Demand, Ready
from bench.works import EVERY, FRESH, MILLISECONDS, NAMES, OURS, SECONDS, WORKS, why_not
from lpu_mlir.interpreter.native.compile import host, loader

MACHINE = {"processor": "a processor", "versions": "torch 2"}
SETTINGS = {"threads": 2, "turns": 3, "commit": "abc"}


def run(number: int = 1, work: str = "gelu", limit: float | None = 0.25, **values: float) -> Run:
    figures = {system: Figure(value, value, 5, turns=(value,)) for system, value in values.items()}
    limits = () if limit is None else (limit,)
    return Run(work, number, figures, {"read": 4e9, "copy": 2e9, "fma": 8e9}, limits)


def results(*runs: Run, path: Path | None = None) -> Results:
    return Results(SETTINGS, MACHINE, list(runs), path)


# --- ratios -------------------------------------------------------------------------------------


def test_the_best_peer_is_the_quickest_that_has_a_figure():
    one = run(lpu_mlir=1.0, eager=4.0, inductor=2.0, aot_eager=0.1)
    assert one.value(BEST_PEER) == 2.0
    assert one.ratio(BEST_PEER) == 0.5
    assert one.ratio(LIMIT) == 4.0
    failed = Run("gelu", 1, {**one.figures, "inductor": Figure(failure="no compiler")})
    assert failed.ratio(BEST_PEER) == 0.25
    assert failed.ratio("inductor") is None
    assert failed.ratio("iree") is None
    assert failed.ratio(LIMIT) is None
    assert run(eager=1.0).ratio("eager") is None


def test_the_worst_run_counts_and_must_be_known():
    assert worst([0.5, 1.5, 1.0]) == 1.5
    assert worst([0.5, None]) is None
    assert worst([]) is None
    assert middle([3.0, None, 1.0, 2.0]) == 2.0
    assert middle([None]) is None


def test_what_a_criterion_allows():
    one = run(lpu_mlir=3.0, inductor=1.0, eager=4.0)
    assert one.margin(Criterion("eager")) == 0.75
    assert one.margin(Criterion("eager", 0.5)) == 1.5
    assert one.margin(Criterion("inductor", plus=2.0)) == 1.0
    assert one.margin(Criterion("iree")) is None
    criteria = [Criterion("eager", 0.8), Criterion("inductor", plus=1.0), Criterion("iree")]
    assert verdict([one], criteria) == (
        "≤ 0.8 x eager: yes; ≤ inductor + 1 s: no, 1.50 x that; ≤ iree: not measured"
    )
    slower = run(2, lpu_mlir=4.0, inductor=1.0, eager=4.0)
    assert verdict([one, slower], criteria[:1]) == "≤ 0.8 x eager: no, 1.25 x that"
    assert verdict([one], ()) == "-"
    assert str(Criterion("inductor", plus=10e-6)) == "≤ inductor + 10 µs"


def test_what_is_compared_was_measured_in_the_same_turn():
    ours = Figure(4.0, 2.0, 3, turns=(2.0, 4.0, 6.0))
    theirs = Figure(4.0, 4.0, 3, turns=(4.0, 4.0, 12.0))
    one = Run("gelu", 1, {OURS: ours, "eager": theirs}, limits=(1.0, 1.0, 6.0))
    assert one.ratio("eager") == one.ratio(BEST_PEER) == 0.5
    assert one.margin(Criterion("eager", plus=4.0)) == 0.375
    assert one.ratio(LIMIT) == 2.0
    assert one.value(LIMIT) == 1.0


def test_the_limit_is_the_slowest_of_what_cannot_be_avoided():
    rates = {"read": 10.0, "copy": 5.0, "fma": 100.0}
    assert Demand(20, 5, 100).seconds(rates) == 2.0
    assert Demand(20, 15, 100).seconds(rates) == 3.0
    assert Demand(20, 15, 400).seconds(rates) == 4.0


def test_figures_are_shown_with_three_digits():
    assert number(0.0123456, MILLISECONDS) == "12.3"
    assert number(1.23456, MILLISECONDS) == "1,235"
    assert number(1.23456, SECONDS) == "1.23"
    assert number(None, SECONDS) == "-"


# --- the tables ---------------------------------------------------------------------------------


def test_every_work_has_goals_against_what_it_is_measured_with():
    assert GOALS.keys() == WORKS.keys()
    for work, goals in GOALS.items():
        for criterion in (*goals.bar, *goals.goal):
            assert criterion.against in {*WORKS[work].systems, BEST_PEER, LIMIT}
    assert FRESH.keys() < WORKS.keys()
    assert {system for work in WORKS.values() for system in work.systems} <= NAMES.keys()


def test_every_work_is_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    for work in WORKS.values():
        assert callable(resolve_name(work.target))


def test_markdown():
    first = run(1, lpu_mlir=0.012, eager=0.06, inductor=0.02, limit=0.006)
    second = run(2, lpu_mlir=0.014, eager=0.06, inductor=0.02, limit=0.006)
    lines = markdown(results(first, second)).splitlines()
    assert lines[0].startswith("| work | lpu_mlir | eager | Inductor | ONNX Runtime | OpenVINO |")
    assert set(lines[1]) == {"|", "-", " "}
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|")
    cells = [cell.strip() for cell in lines[2].split("|")[1:-1]]
    title = "element-wise chain (gelu), 16M floats, ms"
    assert cells[:8] == [title, "13", "60", "20", "-", "-", "-", "6"]
    assert cells[8:12] == ["0.70", "0.70", "0.23", "2.33"]
    assert cells[12] == "≤ 0.8 x inductor: yes; ≤ best peer: yes"
    assert cells[13] == "≤ 1.6 x limit: no, 1.46 x that"
    assert len(lines) == 5
    assert "of 2 runs the middle one" in lines[4]
    assert "read at 4 to 4 GB/s" in lines[4]
    assert "Other programs" not in lines[4]


def test_text_says_what_failed_and_what_else_was_running():
    one = Run(
        "gelu", 1, {OURS: Figure(1.0, turns=(1.0,)), "iree": Figure(failure="no module")}, load=2.25
    )
    said = text(results(one))
    assert "IREE, element-wise chain (gelu), 16M floats, run 1: no module" in said
    assert "load average 2.2" in said
    assert "bar : ≤ 0.8 x inductor: not measured" in said


def test_the_plot(tmp_path: Path):
    pytest.importorskip("matplotlib")
    from bench.plot import draw

    draw(results(run(lpu_mlir=1.0, eager=2.0)), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


# --- going on -----------------------------------------------------------------------------------


def test_results_are_kept_and_read_back(tmp_path: Path):
    path = tmp_path / "results.json"
    kept = results(path=path)
    kept.add(run(1, lpu_mlir=1.0, eager=2.0))
    kept.add(run(2, lpu_mlir=1.5, eager=2.0))
    kept.add(run(1, lpu_mlir=1.2, eager=2.0))
    assert [r.number for r in kept.runs] == [2, 1]
    assert load(path).runs == kept.runs
    assert results(path=path).resumed().runs == kept.runs
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_is_done_only_with_all_its_systems():
    kept = results(run(1, lpu_mlir=1.0, eager=2.0))
    assert kept.has("gelu", 1, ["eager", "lpu_mlir"])
    assert not kept.has("gelu", 1, ["eager", "inductor"])
    assert not kept.has("gelu", 2, ["eager"])
    assert not kept.has("chain", 1, ["eager"])


def test_results_of_other_settings_are_refused(tmp_path: Path):
    path = tmp_path / "results.json"
    results(path=path).save()
    other = Results({**SETTINGS, "threads": 1}, MACHINE, path=path)
    with pytest.raises(OtherSettings, match=r"measured with threads 2, and this would be 1"):
        other.resumed()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, tuple[str, ...]]]:
    """What the command would have measured, without doing so."""
    calls: list[tuple[str, int, tuple[str, ...]]] = []

    def pretend(work: str, number: int, systems: Sequence[str], conditions: Conditions) -> Run:
        calls.append((work, number, tuple(systems)))
        return run(number, work, **dict.fromkeys(systems, 1.0))

    monkeypatch.setattr(command, "measure", pretend)
    monkeypatch.setattr(command, "commit", lambda: "abc")
    return calls


def test_the_command_goes_on_where_it_was_stopped(
    measured: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = str(tmp_path / "results.json")
    given = ["--json", file, "--work", "gpt-*", "--systems", "lpu_mlir", "eager", "--runs", "2"]
    assert command.main([*given[:-1], "1"]) == 0
    both = ("lpu_mlir", "eager")
    assert measured == [("gpt-1", 1, both), ("gpt-128", 1, both)]
    assert command.main(given) == 0
    assert measured[2:] == [("gpt-1", 2, both), ("gpt-128", 2, both)]
    assert "12-layer GPT stack, 128 tokens" in capsys.readouterr().out
    assert command.main(["--readme", file]) == 0
    assert capsys.readouterr().out.startswith("| work | lpu_mlir |")
    assert command.main([*given, "--quick"]) == 2
    assert "turns" in capsys.readouterr().err
    assert len(measured) == 4


def test_systems_that_only_one_work_has_are_always_measured(measured: list[object]):
    assert command.main(["--quick", "--work", "compile-*", "--systems", "lpu_mlir"]) == 0
    assert measured == [
        ("compile-cold", 1, ("lpu_mlir", "aot_eager")),
        ("compile-cached", 1, ("lpu_mlir", "dynamo")),
    ]
    assert command.systems_of("decode-bf16", ["eager"]) == ["eager"]
    assert command.systems_of("decode-bf16", ["lpu_mlir"]) == ["lpu_mlir", "lpu_mlir float32"]


def test_the_list(capsys: pytest.CaptureFixture[str]):
    assert command.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(WORKS)


# --- systems and turns --------------------------------------------------------------------------


def test_why_a_system_cannot_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(works.MODULES, "iree", ("there_is.no_such",))
    assert why_not("iree") == "IREE is not installed: there is no module there_is.no_such"
    assert why_not(OURS) is None
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    assert why_not("inductor") == "Inductor needs a C++ compiler, and there is none"


def test_a_difference_from_eager_is_an_error():
    a, b = torch.tensor([1.0, -4.0]), torch.tensor([1.0, -3.0])
    assert difference([a], [a], 0) == 0
    assert difference([b], [a], 0.25) == 0.25
    with pytest.raises(WrongResult, match=r"by 2.5e-01 of the largest"):
        difference([b], [a], 0.2)
    with pytest.raises(WrongResult):
        difference([torch.tensor([float("nan"), -4.0])], [a], 1.0)


def test_a_turn_repeats_quick_calls_and_resets_before_each_sample():
    calls: list[str] = []
    ready = Ready(lambda: calls.append("run"), 0.0, 0.0, Demand(), 4, lambda: calls.append("reset"))
    samples = ready.turn()["seconds"]
    assert calls.count("reset") == len(samples) + 1
    assert calls.count("run") > 100 * len(samples)
    assert calls[:3] == ["reset", "run", "reset"]


class Fake:
    """A rival of which the second turn fails, or none."""

    def __init__(self, fails: bool):
        self.fails, self.turns, self.stopped = fails, 0, False

    def turn(self) -> dict[str, list[float]]:
        self.turns += 1
        if self.fails and self.turns == 2:
            raise Failed("no answer")
        return {"seconds": [float(self.turns)]}

    def stop(self) -> None:
        self.stopped = True


def test_who_fails_is_out_and_the_others_go_on():
    fakes = {"eager": Fake(False), "iree": Fake(True)}
    entrants = {name: Entrant(fake, 1.0, 0.0, Demand()) for name, fake in fakes.items()}
    figures: dict[str, Figure] = {}
    turns.go_round(entrants, figures, Conditions(2, 5))
    assert list(entrants) == ["eager"]
    assert entrants["eager"].figure() == Figure(
        3.0, 1.0, 5, 1.0, 0.0, turns=(1.0, 2.0, 3.0, 4.0, 5.0)
    )
    assert figures == {"iree": Figure(failure="no answer")}
    assert fakes["iree"].stopped
    assert fakes["iree"].turns == 2


def test_who_fails_afresh_is_not_tried_again(monkeypatch: pytest.MonkeyPatch):
    tried: list[str] = []

    def fresh(work: str, system: str, conditions: Conditions) -> float:
        tried.append(system)
        if system == "iree":
            raise Failed("no answer")
        return float(len(tried))

    monkeypatch.setattr(turns, "fresh", fresh)
    figures = turns.afresh("memory", ["eager", "iree"], Conditions(2, 1, lambda said: None))
    assert tried == ["eager", "iree", "eager", "eager"]
    assert figures["eager"].turns == (1.0, 3.0, 4.0)
    assert figures["iree"] == Figure(failure="no answer")


@pytest.fixture
def rival() -> Iterator[tuple[Rival, object]]:
    """One without a process, and the end of the pipe that the process would have."""
    made = Rival.__new__(Rival)
    made.connection, theirs = Pipe()
    yield made, theirs
    made.connection.close()


def test_answers(rival):
    made, theirs = rival
    theirs.send((1.0, 0.0, Demand()))
    assert made.answer(1.0) == (1.0, 0.0, Demand())
    theirs.send("ValueError: no")
    with pytest.raises(Failed, match="ValueError: no"):
        made.answer(1.0)
    with pytest.raises(Failed, match="no answer within 0 s"):
        made.answer(0.0)


def test_who_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(works.MODULES, "iree", ("there_is.no_such",))
    values = iter((3.0, 1.0, 2.0))
    monkeypatch.setattr(turns, "fresh", lambda work, system, conditions: next(values))
    told: list[str] = []
    one = measure("memory", 2, ["eager", "iree"], Conditions(2, 1, told.append))
    assert one.figures["eager"] == Figure(2.0, 1.0, 3, turns=(3.0, 1.0, 2.0))
    assert "not installed" in one.figures["iree"].failure
    assert (one.work, one.number, len(told)) == ("memory", 2, 1)


def test_the_caches_of_a_worker_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    weights = tmp_path / "known" / "smollm2-135m-instruct"
    weights.mkdir(parents=True)
    monkeypatch.setenv("LPU_MLIR_CACHE_DIR", str(weights.parent))
    environment = Conditions(3, 1).environment(tmp_path / "new")
    ours = Path(environment["LPU_MLIR_CACHE_DIR"])
    assert ours.parent == tmp_path / "new"
    assert [path.name for path in ours.iterdir()] == [weights.name]
    assert (ours / weights.name).resolve() == weights
    assert environment["OMP_NUM_THREADS"] == "3"
    assert Path(environment["TORCHINDUCTOR_CACHE_DIR"]).parent == ours.parent


@pytest.mark.slow
def test_processes_take_turns():
    """Eager alone, on the smallest work, in real processes."""
    one = measure("call", 1, ["eager"], Conditions(1, 2, lambda said: None))
    assert one.figures.keys() == {"eager"}
    assert one.figures["eager"].samples > 2
    assert one.figures["eager"].difference == 0
    assert len(one.limits) == len(one.figures["eager"].turns) == 2
    assert json.loads(json.dumps(one.rates)).keys() == {"read", "copy", "fma"}


# --- what the machine can do --------------------------------------------------------------------


def test_the_code_of_the_limits_does_its_work():
    lanes = host().lanes(4)
    code = loader().load(program(lanes), ["read", "copy", "fma"])
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    read, copy, fma = (prototype(code.addresses[name]) for name in ("read", "copy", "fma"))
    count = 6
    source = torch.arange(4.0 * count * lanes)
    sums = torch.zeros(lanes)
    read(source.data_ptr(), count, sums.data_ptr())
    torch.testing.assert_close(sums, source.view(-1, lanes).sum(0))
    target = torch.zeros(count * lanes + 1)
    copy(source.data_ptr(), count, target.data_ptr())
    assert torch.equal(target[:-1], source[: count * lanes])
    assert target[-1] == 0
    place = torch.full((lanes,), 0.5)
    fma(place.data_ptr(), 3, place.data_ptr())
    # Each of the twelve goes from x to x * x + x three times.
    x = 0.5
    for _ in range(3):
        x = x * 0.5 + 0.5
    torch.testing.assert_close(place, torch.full((lanes,), 12 * x))


def test_rates(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bench.limits.READ_BYTES", 1 << 20)
    monkeypatch.setattr("bench.limits.COPY_BYTES", 1 << 20)
    monkeypatch.setattr("bench.limits.FMA_ROUNDS", 100)
    machine = Machine(2)
    rates = machine.turn()
    assert rates.keys() == {"read", "copy", "fma"}
    assert all(value > 0 for values in rates.values() for value in values)
    assert torch.equal(machine.target, torch.ones_like(machine.target))
    assert machine.sums[:, : machine.vector_bytes // 4].sum() > 0


def test_the_names_of_the_options_are_those_of_the_systems():
    assert command.arguments([]).systems == list(EVERY)


def test_a_figure_is_told_in_its_unit():
    figure = Figure(0.0123, 0.01, 5, 2.5, 1e-6)
    assert turns.describe("gelu", "eager", figure) == (
        "  eager                 12.3 ms  5 samples, compiled in 2.5 s, off by 1e-06"
    )
    assert turns.describe("memory", "eager", Figure(8e8, 8e8, 1)).endswith(" 800 MB")
    assert turns.describe("gelu", "iree", Figure(failure="no")).endswith(" no")
