"""The live pipeline: sources, the step, the mapping, the sinks and the processes around them.

Times are int64 nanoseconds of one injected clock (:mod:`realtime.clock`) unless a name says otherwise.

Importing this package limits every numerical library to one thread, unless the environment says otherwise. A
step of a millisecond gains nothing from a second thread, and a pool that spins or sleeps between frames costs
the wake-up of its slowest member; stalls of up to 100 ms were seen with two threads. NumPy reads these
variables when it is loaded, so they are set here.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
