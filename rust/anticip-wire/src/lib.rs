//! Datagrams of motion-capture systems, decoded and encoded; pure functions of bytes that never panic.
#![forbid(unsafe_code)]
