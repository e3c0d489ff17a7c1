"""Watches a training program from inside: phases, memory by step, what was alive at the peaks.

What runs in the watched process needs the standard library and PyTorch, nothing else: it may be another environment
than the one Headroom is installed in. It appends lines to a file; `profiler.hook.collect` makes a report of them.
"""
