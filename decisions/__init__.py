"""Pure decisions: state and what was observed in; events out. No I/O, no clock, no dice."""
