"""The monitor: a page that shows a show and steers it, served by a process of its own."""
