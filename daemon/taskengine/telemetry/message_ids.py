MESSAGE_IDS: dict[str, str] = {}
