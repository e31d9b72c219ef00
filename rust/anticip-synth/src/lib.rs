//! The built-in voice: eight sound parameters and two events in, stereo samples out.
#![forbid(unsafe_code)]
