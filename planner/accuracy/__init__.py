"""Plans against measurements: how far off they were, and the band that follows from it.

- `truth`: measurement records, and the one loader of their files.
- `contradictions`: records that ask the same and answer differently.
- `predict`: what a plan says that a record's reading would have been.
- `score`: predictions beside observations, row by row, and the statistics of the rows.
- `bands`: low and high around a peak, from the residuals of published runs.
- `calibrate`: level and band from the runs that the user measured.
"""
