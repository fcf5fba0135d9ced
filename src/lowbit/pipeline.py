"""The road on one page: which stage follows which. The stages themselves know nothing of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowbit.arguments import flag, is_real, shown
from lowbit.calibration.record import CalibrationRecord
from lowbit.decide.checks import need_executor, need_float
from lowbit.decide.goal import Goal, reaches
from lowbit.decide.limits import Limits
from lowbit.errors import CalibrationError, FormatError, InputError, LowbitError, QuantError, warn
from lowbit.ir.beside import together
from lowbit.ir.bind import bind
from lowbit.ir.file import is_lowbit_file
from lowbit.ir.file import load as load_file
from lowbit.ir.graph import PREPROCESSING, Graph, need_graph
from lowbit.ir.samples import all_alike, as_samples, for_graph, says_something, warn_of_zeros
from lowbit.ir.shapes import Given, Shapes, binding_of, checked_shapes
from lowbit.limits import Limits as LoadLimits
from lowbit.limits import within
from lowbit.lower import lower
from lowbit.lower.integer import quantized_nodes
from lowbit.passes.widen_halves import widen_halves
from lowbit.quant_params import quant_dtype
from lowbit.quantization.recipes import recipe as rules_of
from lowbit.quantization.rules import QuantRule, RuleMatcher, as_rules
from lowbit.quantization.transform import QuantizationTransform
from lowbit.report.scored_output import scored_output
from lowbit.report.scores import as_labels
from lowbit.runtime.session import Session
from lowbit.types import Array

if TYPE_CHECKING:
    from lowbit.codegen import EmittedC
    from lowbit.decide.decision import Decision
    from lowbit.decide.goal import Prefer, Step
    from lowbit.decide.labelled import Labelled

DEFAULT = "int8"
NEEDS_SCORE = "max_drop={}, 0 or more beside labels= or metric= is needed"
PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl")
GUARDED = ("int8", "uint8", "w4a8")  # recipes that the guard looks after


def load(
    source: Any,
    *,
    shapes: Shapes | None = None,
    inputs: Sequence[Any] | None = None,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    constants: Mapping[str, Any] | None = None,
    simplify: bool | None = None,
    limits: LoadLimits | None = None,
) -> Graph:
    """The network as a Graph: from an .onnx, .gguf, .pt2 or .lowbit file, bytes, an onnx.ModelProto, a torch module or an ExportedProgram.

    shapes    binds dimensions that the model leaves open: {"x": [1, 3, 224, 224]} by input, or {"batch": 1} by symbol. A name in a shape
              calls an open dimension so. A number must be equal to a size that the model fixes; in an ONNX file it may be another, or a
              name, where nothing in the graph depends on that size
    inputs    example inputs of a torch module
    dynamic   dimensions of a torch module's inputs that stay symbols, by forward's argument names: {"x": {0: "batch"}}
    constants values of inputs of an ONNX file, once and for all: {"sr": 16000}. They are no inputs of the graph then
    simplify  folds constants and batch norms, and fuses what exporters spell out; False keeps the graph as it was written, which is
              also the default for what lowbit wrote (.lowbit files, and .onnx files whose nodes nobody changed) and .gguf files
    limits    how many nodes a file may have, how much memory its constants may take, and so on (lowbit.Limits)

    >>> import lowbit
    >>> from pathlib import Path
    >>> demo = Path(lowbit.__file__).parent / "demo" / "fashion_cnn.onnx"
    >>> print(lowbit.load(demo).inputs[0].type)
    float32[batch, 1, 28, 28]
    """
    from lowbit.passes import simplify as simplify_graph

    with within(limits):
        graph, written_by_lowbit = _read(source, shapes, inputs, dynamic, constants)
        if simplify is None:
            simplify = not written_by_lowbit
        return simplify_graph(graph) if flag("simplify", simplify) else graph


def _read(
    source: Any,
    shapes: Shapes | None,
    inputs: Sequence[Any] | None,
    dynamic: Mapping[str, Mapping[int, str]] | None,
    constants: Mapping[str, Any] | None,
) -> tuple[Graph, bool]:
    """The graph, and whether lowbit wrote it: then it is as simple as it gets."""
    given = checked_shapes(shapes)
    if constants is not None and not _is_onnx(source):
        raise InputError("constants= is for ONNX files: others have no inputs that could be fixed", hint="load without constants=")
    kind = type(source)
    held = getattr(source, "lowbit_graph", None)
    if held is not None and held.ready:  # a module that lowbit.torch has converted: its graph is what it runs
        return bind_shapes(held.graph(source), given), True
    if hasattr(source, "__lowbit_graph__") and not isinstance(source, type):
        return bind_shapes(source.__lowbit_graph__(inputs, dynamic), given), True
    if kind.__module__.split(".")[0] == "torch" or hasattr(source, "forward"):
        from lowbit.frontends.torch import load_torch

        return bind_shapes(load_torch(source, inputs, dynamic=dynamic), given), False
    if inputs is not None or dynamic is not None:
        said = "inputs=" if inputs is not None else "dynamic="
        raise InputError(f"{said} is for torch modules, {kind.__name__} was given", hint="shapes= binds the dimensions of a file")
    if kind.__name__ == "ModelProto" and kind.__module__.split(".")[0] == "onnx":
        source = source.SerializeToString()
    if isinstance(source, bytes | bytearray | memoryview):
        place: bytes | Path = bytes(source)
        is_lowbit = is_lowbit_file(bytes(source))
    elif isinstance(source, str | PathLike):
        if not str(source).strip():
            raise FormatError("the path is empty", hint="the path of an .onnx, .gguf or .lowbit file")
        place = path = Path(source)
        if "\0" not in str(path) and path.is_dir():
            raise FormatError("it is a folder, a file is needed", where=str(path), hint=_inside(path))
        if "\0" in str(path) or not path.is_file():
            raise FormatError("there is no such file", where=repr(str(path))[1:-1], hint="the path of an .onnx, .gguf or .lowbit file")
        is_lowbit = path.suffix == ".lowbit"
        if path.suffix == ".gguf":
            from lowbit.frontends.gguf import load_gguf

            return bind_shapes(load_gguf(path), given), True
        if path.suffix == ".pt2":
            from lowbit.frontends.torch import load_torch
            from lowbit.frontends.torch.archive import load_archive

            return bind_shapes(load_torch(load_archive(path)), given), False
        if path.suffix in PICKLES:
            hint = (
                f"torch.export.save(torch.export.export(model.eval(), (example,)), {path.stem + '.pt2'!r}), or lowbit.load(model, inputs=…)"
            )
            raise FormatError(
                f"'{path.suffix}' files hold Python objects, which run code when they are read: lowbit does not", where=path.name, hint=hint
            )
        if path.suffix not in (".lowbit", ".onnx"):
            hint = ".onnx, .gguf, .lowbit, .pt2, or a torch module in memory"
            raise FormatError(f"files of kind '{path.suffix}' are not read", where=path.name, hint=hint)
    else:
        hint = "the path of an .onnx or .lowbit file, or a torch.nn.Module with inputs="
        raise InputError(f"{kind.__name__} cannot be loaded", hint=hint)
    if is_lowbit:
        return bind_shapes(load_file(place), given), True
    from lowbit.export.onnx.proof import spelled
    from lowbit.frontends.onnx import import_model, onnx_model

    model = onnx_model(place)
    return import_model(model, given, constants, spelled), model.own is not None and model.own.intact


def _is_onnx(source: Any) -> bool:
    if isinstance(source, bytes | bytearray | memoryview):
        return not is_lowbit_file(bytes(source))
    if isinstance(source, str | PathLike):
        return Path(source).suffix not in (".lowbit", ".gguf")  # of any other kind, and of none, the error says that
    return type(source).__name__ == "ModelProto"


def _inside(folder: Path) -> str:
    """The loadable files of a folder."""
    try:
        found = sorted(str(p) for p in folder.iterdir() if p.suffix in (".onnx", ".gguf", ".lowbit") and p.is_file())
    except OSError:
        found = []
    return " or ".join(found[:3]) if found else "the path of an .onnx, .gguf or .lowbit file"


def bind_shapes(graph: Graph, given: Given) -> Graph:
    """The graph with `shapes=` bound."""
    return bind(graph, binding_of(given, {v.name: v.shape for v in graph.inputs}))


def calibrate(
    graph: Graph,
    data: Iterable[Any],
    *,
    method: str | Callable[[Any], Any] = "minmax",
    recipe: str | None = None,
    rules: Iterable[QuantRule] | None = None,
    executor: Executor | None = None,
    ignore_nonfinite: bool = False,
) -> CalibrationRecord:
    """Ranges of every value that the rules (or the recipe) will quantize, learned from `data`: an iterable of {input name: array}.

    recipe    a named list of rules (int8 if neither it nor rules are given); rules= beside it match before its own
    method    minmax, moving-average, percentile, entropy, mse or adaptive; or a function of your own: fn(values) gives (lo, hi)
    executor  spreads samples over processes or machines; the record is the same, bit for bit, on CPUs of one kind
    ignore_nonfinite  leaves NaN and infinities out instead of refusing them

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> x = np.ones((2, 4), np.float32)
    >>> record = lowbit.calibrate(g, [{"x": x}], method="minmax")
    >>> sorted(record.taps)
    ['x']
    """
    from lowbit.calibration.run import calibrate as run_calibration

    need_float(graph, "calibrate")
    graph = widen_halves(graph)
    need_executor(executor)
    flag("ignore_nonfinite", ignore_nonfinite)
    transform = QuantizationTransform(chosen_rules(recipe, rules))
    for name, text in transform.matcher.remarks(graph).items():
        warn(f"{name}: {text}")
    return run_calibration(graph, data, transform.taps(graph).observed, method=method, executor=executor, ignore_nonfinite=ignore_nonfinite)


def quantize(
    graph: Graph,
    calibration: CalibrationRecord | Iterable[Any] | None = None,
    *,
    recipe: str | None = None,
    rules: Iterable[QuantRule] | None = None,
    method: str | Callable[[Any], Any] = "minmax",
    executor: Executor | None = None,
    strict: bool = False,
    prefer: Prefer = "balanced",
    labels: Any = None,
    output: str | None = None,
    metric: Callable[[Session], Any] | None = None,
    max_drop: float | None = None,
    guard: bool = True,
    wide: bool = True,
    max_ms: float | None = None,
    max_bytes: int | None = None,
    max_ram: int | None = None,
    minutes: float | None = None,
    on_step: Callable[[Step], None] | None = None,
    on_decision: Callable[[Decision], None] | None = None,
) -> Graph:
    """The graph with Q/DQ brackets where the rules (or the recipe) want integers. `calibration` is a record, or data to make one.

    recipe   a named list of rules (int8 if neither it nor rules are given)
    rules    the first that matches a layer decides; beside recipe= they match before its own
    strict   rules that decide nothing are an error, not a warning
    prefer   what a network that cannot have everything shall have: "balanced" is never slower than a float network of 0.1 ms or more,
             "accuracy" may be,
             "speed" and "size" are content with a little less accuracy
    labels   the class of each row of the data, in its order, where the data do not bring them (`lowbit.data`): top-1 decides instead of
             the outputs' noise. Half of the rows that are held back decide; the score that is told is of the other half, which nothing was
             fitted to or chosen by. With fewer than six batches it is of rows that were used for more, and the verdict says so
    output   the output whose classes the labels are, where the network has several and it is not plain which
    metric   metric(session) gives a number, higher is better: it decides in the place of the outputs' noise. It brings its own data, which
             should be other than the calibration data; the score that is told is of that data, too
    max_drop with labels or a metric: how far the score may be below the float network's (0.005; with labels at least one row)
    guard    with data and a static 8-bit or 4-bit recipe: part of the data is held back, the integers that run are measured with it, and
             what is not good enough is repaired (see `lowbit.decide.engine`); layers that your rules decide before the recipe's are left
             alone. False leaves the recipe's rules as they are. Where it is off, for that reason or because of a record, a note says so
    wide     False: no layer gets 16 bits. A function of 16 bits (sigmoid, gelu) is a table of 128 KB, much for a chip's flash
    max_ms   milliseconds that a batch as given may take on one thread; max_bytes: of the stored parameters (weights get 4 bits where that
             is needed); max_ram: bytes that a session needs beside the weights. The best that was found comes back if it cannot be met:
             a warning says so, and `unmet` of the decision
    minutes  after so long, looked at between candidates, the best so far is returned
    on_step  is told each thing that was tried; on_decision what was decided: quality, times, what stayed float, whether the goal is met,
             and every network that was measured with the front of them

    What was decided is in `verdict` of the result, one line that its repr shows, too; `reasons` has the reason of each layer.

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> x = np.ones((2, 4), np.float32)
    >>> q = lowbit.quantize(g, [{"x": x}], recipe="int8", guard=False)
    >>> [n.op for n in q.nodes]
    ['quantize_linear', 'dequantize_linear', 'dequantize_linear', 'dequantize_linear', 'linear']
    """
    need_float(graph, "quantize")
    graph = widen_halves(graph)
    need_executor(executor)
    for name, value in (("strict", strict), ("guard", guard), ("wide", wide)):
        flag(name, value)
    for name, given in (("on_step", on_step), ("on_decision", on_decision), ("metric", metric)):
        if given is not None and not callable(given):
            raise InputError(f"{name}={shown(given)} cannot be called", hint=f"{name}=print" if name != "metric" else "metric=accuracy")
    if labels is not None and metric is not None:
        raise InputError("labels= and metric= are both given", hint="one of them: a metric brings its own data and labels")
    if output is not None and labels is None and (metric is not None or calibration is None or isinstance(calibration, CalibrationRecord)):
        raise InputError("output= is for labels=, and there are none", hint=f'labels=y, output="{next(iter(graph.outputs))}"')
    if labels is not None:
        output = scored_output(graph, output)
    has_data = calibration is not None and not isinstance(
        calibration, CalibrationRecord
    )  # it may bring labels, which shows when it is read
    if max_drop is not None and ((metric is None and labels is None and not has_data) or not is_real(max_drop) or max_drop < 0):
        raise InputError(NEEDS_SCORE.format(shown(max_drop)), hint="labels=y, max_drop=0.005")
    if has_data:
        calibration = for_graph(graph, calibration)
    stored = {f"{PREPROCESSING}{name}": how for name, how in getattr(calibration, "preprocessing", {}).items()}
    goal = Goal.of(prefer, bits16=wide)
    limits = Limits.of(max_ms, max_bytes, max_ram, minutes)
    chosen = chosen_rules(recipe, rules)
    if not wide:
        need_narrow(graph, recipe, chosen)
    named = guarded_recipe(chosen)
    if guard and named is not None and calibration is not None and not isinstance(calibration, CalibrationRecord):
        first = chosen[: -len(rules_of(named))]
        found = decided(
            graph, calibration, recipe=named, rules=first, method=method, goal=goal, labels=labels, output=output,
            metric=metric, max_drop=max_drop, on_step=on_step, executor=executor, strict=strict, limits=limits,
        )  # fmt: skip
        found = replace(found, graph=replace(found.graph, notes={**found.graph.notes, **stored}))
        if on_decision is not None:
            on_decision(found)
        return found.graph
    deciding = {"metric": metric is not None, "labels": labels is not None, **dict.fromkeys(limits.named, True)}
    for name in (name for name, there in deciding.items() if there):
        example = {"metric": "accuracy", "labels": "y"}.get(name, "…")
        raise InputError(
            f"{name}= decides between candidates, and there are none: data and a recipe that decides are needed",
            hint=f'quantize(graph, data, recipe="int8", {name}={example})',
        )
    record = calibration
    if calibration is None:
        needed = QuantizationTransform(chosen).taps(graph).required
        if needed:
            raise CalibrationError(
                f"{len(needed)} values need data to know their range ({needed[0]!r} is the first)",
                hint="data or a calibration record; the recipes int8-dynamic and int4-weights need neither",
            )
    if calibration is not None and not isinstance(calibration, CalibrationRecord):
        from lowbit.calibration.run import calibrate as run_calibration

        record = run_calibration(graph, calibration, QuantizationTransform(chosen).taps(graph).observed, method=method, executor=executor)
    assert record is None or isinstance(record, CalibrationRecord)
    transform = QuantizationTransform(chosen)
    made = transform.apply(graph, record, strict=strict)
    made = replace(made, notes={**made.notes, **stored})
    if recipe is None and rules is not None and not quantized_nodes(made):
        text = 'nothing is quantized: your rules give no layer integers; with recipe="int8" (--recipe int8) they match before its rules'
        warn(text)
        return replace(made, notes={**made.notes, "guard": "off (no recipe comes after your rules)"})
    if not transform.taps(graph).observed:
        return made  # no range was learned: there is nothing that it would have looked at
    if not guard:
        why = "guard=False"
    elif named is not None:
        why = "a record is given, and no data to measure with"
    elif recipe is not None:
        why = f"it does not look after recipe {recipe}"
    else:
        why = "no recipe comes after your rules"
    return replace(made, notes={**made.notes, "guard": f"off ({why}): what the layers lose was not measured; lowbit compare tells"})


def chosen_rules(recipe: str | None, rules: Iterable[QuantRule] | None) -> tuple[QuantRule, ...]:
    """The rules that a caller means: his own, and after them those of the recipe, if one is named or nothing else is given."""
    if rules is None:
        return tuple(rules_of(DEFAULT if recipe is None else recipe))
    found = as_rules(rules)
    if not found:
        raise QuantError("there are no rules in rules=", hint='rules=[lowbit.CalibratedQuantRule(".*", "int8")], or recipe="int8"')
    return found if recipe is None else (*found, *rules_of(recipe))


def need_narrow(graph: Graph, recipe: str | None, chosen: Sequence[QuantRule]) -> None:
    """An error where a recipe gives layers 16 bits, a warning where a rule does: both were asked for together with wide=False."""
    unused = {id(r) for r in RuleMatcher(chosen).unused(graph)}
    behind = len(chosen) - len(rules_of(recipe)) if recipe is not None else len(chosen)
    for i, rule in enumerate(chosen):
        if rule.mode != "static" or quant_dtype(rule.dtype).bits != 16 or id(rule) in unused:
            continue
        if i >= behind:
            what = f"recipe {recipe} gives layers 16 bits, and wide=False (--no-wide) is to give none"
            raise QuantError(what, hint='recipe="int8", or wide=True')
        text = (
            f"rule {i}: {type(rule).__name__} {rule.pattern!r} gives {rule.dtype}: wide=False (--no-wide) binds the recipe, not your rules"
        )
        warn(text)


def guarded_recipe(rules: Sequence[QuantRule]) -> str | None:
    """The recipe that the rules end in, if it is one that the guard looks after."""
    return next((name for name in GUARDED if list(rules[-len(rules_of(name)) :]) == rules_of(name)), None)


def decided(
    graph: Graph,
    data: Iterable[Any],
    *,
    recipe: str = "int8",
    rules: Iterable[QuantRule] = (),
    method: str | Callable[[Any], Any] = "minmax",
    goal: Goal | None = None,
    labels: Any = None,
    output: str | None = None,
    metric: Callable[[Session], Any] | None = None,
    max_drop: float | None = None,
    on_step: Callable[[Step], None] | None = None,
    executor: Executor | None = None,
    strict: bool = False,
    limits: Limits | None = None,
) -> Decision:
    """`quantize` with data: the graph, what was tried, and what is true of the network that is returned.

    `rules` match before those of the recipe; the layers that they decide are left as they say.
    """
    from lowbit.calibration.own_method import register_method
    from lowbit.calibration.run import finite_inputs
    from lowbit.decide.engine import decide
    from lowbit.decide.labelled import MAX_DROP, decide_and_report, warn_of_guessing
    from lowbit.decide.samples import SMALL, StoredSamples
    from lowbit.decide.scores import scored
    from lowbit.decide.verdict import notes_of, verdict

    first = as_rules(rules)
    classes = None if labels is None else as_labels(labels)
    transform = QuantizationTransform([*first, *rules_of(recipe)])
    if strict:
        transform.check(graph)
    for name, text in transform.matcher.remarks(graph).items():
        warn(f"{name}: {text}")
    observed = transform.taps(graph).observed
    looked_at = [v.name for v in graph.inputs if v.name in observed]
    room = max(SMALL, graph.parameter_bytes // 4)
    beside: list[Array | None] = []
    samples = StoredSamples(finite_inputs(as_samples(graph, data, beside), looked_at), room, copy=not isinstance(data, list | tuple))
    if not len(samples):
        raise CalibrationError("there is no data to calibrate with", hint="an iterable of {input name: array}, tuples or arrays")
    (rule,) = rules_of(recipe)
    measure = None if metric is None else (lambda made: scored(metric, compile(made)))
    drop, told = MAX_DROP, None
    found_labels = together(beside) if classes is None and metric is None else classes
    if found_labels is None and metric is None and any(x is not None for x in beside):
        warn("some batches of the data have labels and others have none: they are not used")
    if output is not None and found_labels is None:
        raise InputError("output= is for labels, and there are none", hint=f'labels=y, output="{next(iter(graph.outputs))}"')
    if found_labels is not None:
        try:
            deciding, told, every = decide_and_report(graph, samples, found_labels, scored_output(graph, output))
            warn_of_guessing(graph, told, every)
            measure, drop = deciding.score, deciding.max_drop
        except LowbitError as e:
            if classes is not None:
                raise
            warn(f"the labels in the data are not used: {e.message}")
    if max_drop is not None and told is not None and max_drop > 1:
        hint = f"max_drop={max_drop / 100:g}" + (f" for {max_drop:g} points" if max_drop <= 100 else "")
        raise InputError(f"max_drop={shown(max_drop)}, and top-1 goes from 0 to 1: anything would do", hint=hint)
    if max_drop is not None and measure is None:
        raise InputError(NEEDS_SCORE.format(shown(max_drop)), hint="labels=y, max_drop=0.005")
    named_method = register_method(method) if callable(method) else method
    found = decide(
        graph, samples, rule, goal=goal, method=named_method, on_step=on_step, executor=executor, first=first, metric=measure,
        max_drop=drop if max_drop is None else max_drop, limits=limits,
    )  # fmt: skip
    if metric is not None:
        found = replace(found, scored="the metric's own data, which decided")
    if told is not None:
        found = _on_other_rows(graph, found, told, max_drop)
    if not any(says_something(graph, sample) for sample in samples):
        warn_of_zeros()
        found = replace(found, unmet="; ".join(filter(None, [found.unmet, "every batch is zero, which tells nothing of other data"])))
    elif all_alike(samples):
        text = "all batches are the same, those to calibrate and those to measure with: what other data would lose cannot be seen"
        warn(text)
        found = replace(found, measured_on="batches that are all the same")
    if hasattr(data, "said"):
        found = replace(found, measured_on=data.said)
    if len(samples) == 1:
        text = "there is one batch, to calibrate and to measure with: what other data would lose cannot be seen; data in several helps"
        warn(text)
    if not quantized_nodes(found.graph):
        warn("nothing is quantized: no layer is better off in integers")
    if not found.met:
        warn(f"the goal is not met: {found.unmet}")
    notes = {**found.graph.notes, **notes_of(graph, found)}
    return replace(found, graph=replace(found.graph, notes=notes, verdict=verdict(graph, found)))


def _on_other_rows(graph: Graph, found: Decision, told: Labelled, max_drop: float | None) -> Decision:
    """The decision with its score on rows that had no part in it; whether the goal is met is judged by that."""
    in_float, made = told.count(graph), told.count(found.graph)
    on = f"output {told.output!r} of {told.said}" if len(graph.outputs) > 1 else told.said
    least = in_float.top1 - (told.max_drop if max_drop is None else max_drop)
    unmet = [part for part in found.unmet.split("; ") if part and not part.startswith("the score is ")]  # that of the rows that decided
    if not reaches(made.top1, least):
        unmet.append(f"top-1 is {made.top1:.6g} on {on}, {least:.6g} is the least")
    return replace(found, score=made.top1, float_score=in_float.top1, score_name="top-1", scored=on, unmet="; ".join(unmet))


def compile(graph: Graph, *, threads: int | None = None, isa: str | None = None, trust_packed: bool = False) -> Session:
    """The graph, ready to run: `session(x)` for one array in and one out, `session.run({name: array})` in general.

    What stands between Q/DQ brackets runs on integers, by the arithmetic of docs/arithmetic.md.

    threads  how many may work at once; all of the process's CPUs if not given. The result does not depend on it
    isa      no better instruction set than this one ("ref": portable C), as LOWBIT_ISA for all sessions of a process; integers do not
             depend on it either, float sums may in their last bits
    trust_packed  uses the packed weights of a file that `session.save` wrote. Kernels follow them without checks: only for your own files

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> x = np.ones((2, 4), np.float32)
    >>> session = lowbit.compile(g)
    >>> session(x).shape
    (2, 3)
    """
    need_graph(graph, "compile")
    flag("trust_packed", trust_packed)
    ready = replace(lower(graph).graph, packed=graph.packed if trust_packed else None)
    return Session(ready, threads=threads, isa=isa)


def emit_c(
    graph: Graph,
    folder: str | PathLike[str] | None,
    *,
    target: str = "portable",
    name: str = "model",
    no_float: bool = False,
    float_io: bool = False,
    channels_last: bool = False,
    io_in_arena: bool = False,
    state: Mapping[str, str] | None = None,
    samples: Iterable[Mapping[str, Any]] | None = None,
    vectors: int = 2,
    fits: tuple[int, int] | None = None,
    measure: bool = True,
    force: bool = False,
) -> EmittedC:
    """The network as a folder of self-contained C (docs/output-format.md), with the bits of `compile`. folder=None writes nothing.

    target         a row of lowbit.codegen.TARGETS: host, portable, cortex-m4 …
    name           what every symbol begins with, and the name of the header
    no_float       real numbers are computed in integers, the same bits: for chips without a floating-point unit
    float_io       inputs and outputs stay reals; else those that the network quantizes are given as integers, with their scales
    channels_last  images are given as (N, H, W, C), which saves a copy
    io_in_arena    inputs and outputs share the arena with everything else
    state          inputs that are outputs of the call before, {"h0": "hn"}: the caller keeps them in a struct that model_reset clears
    samples        inputs for the self test, of the types that the C function takes; vectors=: how many are made if there are none
    fits           bytes of RAM and of flash that there are; a LowbitError if it needs more
    measure        compiles it to know flash and stack, if the target's compiler is there
    force          overwrites files that lowbit did not write

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> x = np.ones((2, 4), np.float32)
    >>> from lowbit.ir.bind import bind
    >>> q = bind(lowbit.quantize(g, [{"x": x}], guard=False), {"batch": 1})
    >>> emitted = lowbit.emit_c(q, None, measure=False)  # a folder's name writes the files
    >>> emitted.exact, emitted.weight_bytes
    (True, 36)
    """
    from lowbit import __version__
    from lowbit.codegen import emit

    need_graph(graph, "emit_c")
    flags = {"no_float": no_float, "float_io": float_io, "channels_last": channels_last, "io_in_arena": io_in_arena, "measure": measure}
    for said, value in {**flags, "force": force}.items():
        flag(said, value)
    return emit(
        lower(graph).graph, folder, target_name=target, name=name, version=__version__, no_float=no_float, float_io=float_io,
        channels_last_io=channels_last, io_in_arena=io_in_arena, state=state, samples=samples, vectors=vectors, fits=fits,
        measured=measure, force=force,
    )  # fmt: skip
