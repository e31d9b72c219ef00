"""The live pipeline: sources, the step, the mapping, the sinks and the processes around them.

Times are int64 nanoseconds of one injected clock (:mod:`realtime.clock`) unless a name says otherwise.
"""
