"""Which record next. Pure index arithmetic over a length; imports nothing of ours."""
