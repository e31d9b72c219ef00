"""What every model of the family shares: streaming state, attention, trunk, bias, gates."""
