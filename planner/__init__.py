"""Headroom's planner: how much GPU memory a model and a technique need. Pure functions on frozen values.

Start at `estimate.plan`; docs/tour.md follows one plan from the question to the page, file by file.

- The question: `scenario` and `scenario_values`, read and checked by `validation`, `checks` and `resolve`, carried
  by `document`, `link` and `yaml_text`.
- What is known: `hardware`, `prices`, `cards`, `model`, `runtimes`, `references`.
- The answer: `placement`, then `training`, `serving` or `diffusion` with the formulas of `memory`, into a `ledger`;
  `throughput` for time, `cost` for money, `accuracy` for how far off it may be.
- What reads answers: `advise`, `search`, `sweep`, `mixed`, `diagnose`, `claims`, `exports`, `imports`,
  `requests`, `cli`.
"""
