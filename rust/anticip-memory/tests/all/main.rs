//! The crate from outside, in one program: each one more would be compiled and linked by itself.

mod cost;
mod following;
mod memory;
mod spotting;
