"""Where datagrams come from: a UDP socket or a file at its own pace."""
