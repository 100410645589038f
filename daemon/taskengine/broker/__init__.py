"""Redis carries ids and may forget them all: see `queue` for the verbs, `epoch` for the memory."""
