"""Outages by the clock: what a store that stops, a lost memory and a killed worker cost, in seconds."""
