"""From a message or a log to its cause: what was on the card, what failed, why, and what to change.

`read` takes any text, a file of it chunk by chunk, and finds every message and memory line in it; `diagnose` lays the
newest failure beside a plan: the layers with their check, the tensor that was asked for, the cause, and fixes as
ordered codes. Nothing here raises on a text, whatever it holds; time and memory are bounded by the size of the text.
"""

from planner.diagnose.diagnosis import Diagnosis, diagnose
from planner.diagnose.record import Process, Record
from planner.diagnose.scan import Reading, read, read_whole
from planner.diagnose.sizes import Size

__all__ = ["Diagnosis", "Process", "Reading", "Record", "Size", "diagnose", "read", "read_whole"]
