"""OSCQuery: describes the show's OSC messages and values to clients (github.com/Vidvox/OSCQueryProposal)."""
