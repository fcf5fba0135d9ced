"""The common part of a project's files: the plan with a C name for everything that it mentions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lowbit.codegen.boundary import Quantized
from lowbit.codegen.literals import c_type
from lowbit.codegen.names import Names, identifier
from lowbit.codegen.targets import CTarget
from lowbit.ir.graph import Value
from lowbit.kernels import native
from lowbit.plan import Place, Plan, Slot, Step
from lowbit.types import Array

MACROS = (  # macros of an input or output, by its name
    "_count", "_bytes", "_scale", "_zero_point", "_quantize", "_dequantize", "_scale_multiplier", "_scale_shift", "_quantize_q16",
    "_dequantize_q16", "_from_q16", "_to_q16",
)  # fmt: skip
FIELD = "s_"  # prefix of the fields of the state: a state may be called NULL, unix or int


@dataclass(frozen=True)
class Port:
    """An input or an output: its name in the model, the C argument, what its macros begin with.

    An input that is kept from call to call is a `field` of the state, and its argument is that field; so is the output that becomes it.
    """

    name: str
    value: Value
    argument: str
    macro: str
    quantized: Quantized | None
    slot: Slot | None  # where it is in the arena, if it is there
    field: str | None = None

    @property
    def count(self) -> int:
        return int(self.value.type.size)

    @property
    def nbytes(self) -> int:
        return self.count * self.value.type.dtype.numpy.itemsize


@dataclass(frozen=True)
class Constant:
    """An array of weights.c: `layer` is the first that reads it."""

    name: str
    layer: str
    role: str
    data: Array


@dataclass(frozen=True)
class NamedStep:
    """A step with its name in C and a description for people."""

    step: Step
    name: str
    contract: native.Contract

    @property
    def title(self) -> str:
        """layer1.0.conv2 (q_conv_nhwc): int8[1, 8, 8, 16] -> int8[1, 8, 8, 16]"""
        ins, outs = (", ".join(str(v.type) for v in values) for values in (self.step.inputs, self.step.outputs))
        return f"{self.step.layer} ({self.step.op}): {ins} -> {outs}"

    @property
    def where(self) -> str:
        """The layer in an error, as Node.where has it."""
        return f"{self.step.op} '{self.step.layer}'"


@dataclass(frozen=True)
class Project:
    """A plan ready to be printed. `name` begins every symbol of model.h and weights.h."""

    name: str
    plan: Plan
    target: CTarget
    version: str
    no_float: bool
    quantized_inputs: Mapping[str, Quantized]
    quantized_outputs: Mapping[str, Quantized]
    states: Mapping[str, str] = field(default_factory=dict)  # input name → the output that it is in the next call
    zeros: Mapping[str, int] = field(default_factory=dict)  # state of integers → the one that is the real number 0, if that is known

    @property
    def macro(self) -> str:
        return self.name.upper()

    @property
    def arena_bytes(self) -> int:
        """At least one unit: C has no arrays of nothing."""
        return max(self.plan.arena_bytes, self.target.alignment)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        return self._ports("in", {v.name: v for v in self.plan.inputs}, self.quantized_inputs, self.plan.input_slots)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        return self._ports("out", self.plan.outputs, self.quantized_outputs, self.plan.output_slots)

    def _ports(self, kind: str, values: Mapping[str, Value], params: Mapping[str, Quantized], slots: tuple[Slot, ...]) -> tuple[Port, ...]:
        names, fields = Names(), Names()
        kept = set(self.states) if kind == "in" else set(self.states.values())
        ports = []
        for i, (name, v) in enumerate(values.items()):
            if name in kept:
                own = fields.new(name, FIELD, MACROS) if kind == "in" else self.field_of[name]
                macro = f"{self.macro}_STATE_{own.removeprefix(FIELD).upper()}"
                ports.append(Port(name, v, f"state->{own}", macro, params.get(name), None, own))
                continue
            argument = kind if len(values) - len(kept) == 1 else names.new(name, f"{kind}_", MACROS)
            slot = slots[i] if slots else None
            ports.append(Port(name, v, argument, f"{self.macro}_{argument.upper()}", params.get(name), slot))
        return tuple(ports)

    @property
    def field_of(self) -> dict[str, str]:
        """Output → the field of the state that it becomes."""
        return {self.states[p.name]: p.field for p in self.inputs if p.field is not None}

    @property
    def given(self) -> tuple[Port, ...]:
        """Inputs that the caller brings at each call."""
        return tuple(p for p in self.inputs if p.field is None)

    @property
    def taken(self) -> tuple[Port, ...]:
        """Outputs that the caller gets at each call."""
        return tuple(p for p in self.outputs if p.field is None)

    @property
    def kept(self) -> tuple[Port, ...]:
        """The fields of the state, the widest elements first: nothing lies between them."""
        return tuple(sorted((p for p in self.inputs if p.field is not None), key=lambda p: -p.value.type.dtype.numpy.itemsize))

    @property
    def state_bytes(self) -> int:
        """Of the struct: its end is as aligned as its beginning."""
        widest = max((p.value.type.dtype.numpy.itemsize for p in self.kept), default=1)
        return -(-sum(max(1, p.count) * p.value.type.dtype.numpy.itemsize for p in self.kept) // widest) * widest

    @cached_property
    def calls(self) -> tuple[NamedStep, ...]:
        names, contracts = Names(), native.contracts()
        return tuple(NamedStep(s, names.new(s.layer, "layer_"), contracts[s.contract]) for s in self.plan.steps)

    @property
    def constants(self) -> tuple[Constant, ...]:
        return tuple(self.constant_at.values())

    @cached_property
    def constant_at(self) -> dict[int, Constant]:
        """Those of the plan by index; each is named after the first layer that reads it and the role that it has there."""
        names, found = Names(f"{self.name}_{used}" for used in ("run", "run_in", "arena", "reset", "state")), {}
        for call in self.calls:
            for arg, slot in zip(call.contract.args, call.step.args, strict=True):
                if slot.place is Place.CONSTANT and slot.index not in found:
                    name = names.new(f"{identifier(call.step.layer)}_{arg.name}", f"{self.name}_")
                    found[slot.index] = Constant(name, call.step.layer, arg.name, np.ascontiguousarray(self.plan.constants[slot.index]))
        return dict(sorted(found.items()))

    @cached_property
    def kernels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s.kernel for s in self.plan.steps))

    def type_of(self, value: Value) -> str:
        return c_type(value.type.dtype.numpy, self.no_float)

    @property
    def macs(self) -> int:
        return sum(s.macs for s in self.plan.steps)

    @property
    def ref_macs(self) -> int:
        """Multiply-adds that kernels of portable C do."""
        return sum(s.macs for s in self.plan.steps if s.isa == "ref")

    @property
    def weight_bytes(self) -> int:
        return sum(c.data.nbytes for c in self.constants)

    @property
    def io_bytes(self) -> int:
        """Memory of the caller for inputs and outputs."""
        return 0 if self.plan.input_slots else sum(p.nbytes for p in (*self.given, *self.taken))
