"""`taskengine doctor`: a live system against the six invariants and what stands around it.

`catalogue` lists every finding by its code, `examination` does all checks; each module beside them
holds the checks of one kind. Nothing here changes anything: what mends is `lifecycle/mend`.
"""
