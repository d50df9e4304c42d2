"""Times this project beside what else runs PyTorch models on a CPU: see `scripts/bench --help`.

`works` says what is measured and on which systems, `goals` what must come of it.  Each system runs
in a process of its own (`worker`), turn by turn with the others and with the measurement of what
the machine could do at best (`limits`), so that ratios hold on a machine that is not always equally
fast.  `results` keeps what was measured; `report` and `plot` show it.
"""
