"""The Requests section of the Plan page: what a stream of requests does to a planned server."""
