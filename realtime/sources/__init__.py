"""Sources of datagrams: UDP sockets, and files and recordings played at their own pace."""
