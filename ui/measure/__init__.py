"""What the Measure page needs beside drawing: the machine, running jobs, small copies, results in words."""
