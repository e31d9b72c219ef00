"""OSCQuery: who asks is told what is sent and obeyed, and its values (github.com/Vidvox/OSCQueryProposal)."""
