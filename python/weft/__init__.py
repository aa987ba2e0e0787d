"""weft plans, proves, simulates and draws pipeline-parallel training schedules.

    import weft

    plan = weft.plan("zb-v", ranks=4, micros=16, cost=dict(F=10, I=12, W=8, C=1))
    best = weft.tune(ranks=4, micros=16, placement="v", cost=dict(F=10, I=12, W=8, C=1))
    best.check(channels="pair")
    best.csv("best.csv", format="pytorch")

weft.torch runs a plan in torch.distributed.pipelining and measures it.
"""

from weft import _weft
from weft._check import Finding, Report, Wait, lowerings
from weft._errors import Error, ParseError, ScheduleError, UsageError
from weft._export import Megatron, TorchTitan
from weft._plan import (
    Action,
    Bounds,
    Event,
    Generator,
    Metrics,
    Model,
    Plan,
    StageRange,
    check,
    load,
    models,
    parse,
    plan,
    schedules,
)
from weft._search import (
    Comparison,
    Layout,
    Layouts,
    Partition,
    Row,
    Search,
    Simulation,
    compare,
    partition,
    simulate,
    tune,
    tune_layouts,
)
from weft._trace import (
    Difference,
    Overlay,
    Trace,
    TraceEvent,
    TraceSummary,
    draw,
    load_trace,
    parse_trace,
)
from weft._values import Costs, Spread

__version__: str = _weft.version()[0]

__all__ = [
    "Action",
    "Bounds",
    "Comparison",
    "Costs",
    "Difference",
    "Error",
    "Event",
    "Finding",
    "Generator",
    "Layout",
    "Layouts",
    "Megatron",
    "Metrics",
    "Model",
    "Overlay",
    "ParseError",
    "Partition",
    "Plan",
    "Report",
    "Row",
    "ScheduleError",
    "Search",
    "Simulation",
    "Spread",
    "StageRange",
    "TorchTitan",
    "Trace",
    "TraceEvent",
    "TraceSummary",
    "UsageError",
    "Wait",
    "check",
    "compare",
    "draw",
    "load",
    "load_trace",
    "lowerings",
    "models",
    "parse",
    "parse_trace",
    "partition",
    "plan",
    "schedules",
    "simulate",
    "tune",
    "tune_layouts",
]
