"""The monitor: a web page that displays and controls a show, served by a separate process; and the terminal
display."""
