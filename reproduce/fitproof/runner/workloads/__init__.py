"""Developer workloads: whole runs of a recipe, interrupted and resumed, compared byte for byte. Imports no torch."""
